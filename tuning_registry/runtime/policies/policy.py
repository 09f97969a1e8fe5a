"""What a training job wants from its autotuners, as one immutable, checked value."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from tuning_registry.errors import FormatError
from tuning_registry.locations import shown_url
from tuning_registry.model.names import bare_name
from tuning_registry.runtime.policies.fields import (
    BlockSizes,
    StrPath,
    check_arch,
    check_audit,
    check_block_sizes,
    check_bytes,
    check_digest,
    check_file,
    check_flag,
    check_module_names,
    check_names,
    check_optional_text,
    check_record_path,
    check_repeats,
    check_run,
    check_split,
    check_steps,
    check_table_path,
    declaration_of,
    declare,
    kind_of,
    one_of,
    parse_audit,
    parse_block_sizes,
    parse_flag,
    parse_integer,
    parse_names,
    parse_on_off,
    parse_paths,
    parse_split,
)

MODES: Final = ("auto", "pinned", "record", "off")
ON_MISS: Final = ("nearest", "min_cost", "error", "tune")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AutotunePolicy:
    """How the kernels of this process are tuned; every field is checked when the policy is made.

    Each field is declared once: with its default, and with its help, check and text form as metadata. The
    command line, the environment variables and the table in `docs/runtime.md` follow from these declarations.

    Raises:
        FormatError: A field has a wrong type or value; `path` names the field.
    """

    mode: str | None = field(
        default=None,
        metadata=declare(
            "What to do: auto (Triton tunes as usual), record (the same, and choices are recorded), pinned (nothing is "
            "timed) or off (nothing is patched). TUNING_REGISTRY_MODE=off overrides a policy that a script installs. Default: "
            "record if a record path is given, pinned if determinism is requested, otherwise auto.",
            one_of(MODES, optional=True), choices=MODES, parse=str.lower,
        ),
    )  # fmt: skip
    modules: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            "Packages whose kernels are in scope, by whole name: fla includes fla.ops but not flash. Default: all kernels.",
            check_names, parse=parse_names, metavar="NAME[,NAME...]", separator=",",
        ),
    )  # fmt: skip
    module_names: tuple[str, ...] | Mapping[str, str] = field(
        default=(),
        metadata=declare(
            "Names under which kernels of generated modules are recorded and looked up: scan_*=pkg.scan renames every module "
            "that matches the pattern.",
            check_module_names, parse=parse_names, metavar="PATTERN=NAME[,PATTERN=NAME...]", separator=",",
        ),
    )  # fmt: skip
    table_path: StrPath | tuple[StrPath, ...] = field(
        default=(),
        metadata=declare(
            "Table file, folder of tables, the URL of either in a store (s3://...), or several of them in search order. The "
            "user's tables and the packaged tables are searched last.",
            check_table_path, parse=parse_paths, metavar=f"PATH[{os.pathsep}PATH...]", separator=os.pathsep,
        ),
    )  # fmt: skip
    expect_digest: str | None = field(
        default=None,
        metadata=declare(
            "Selection digest of the table to pin from, or its first 12 or more digits. Mode pinned refuses any other "
            "table.",
            check_digest, metavar="DIGEST",
        ),
    )  # fmt: skip
    record_path: StrPath | None = field(
        default=None,
        metadata=declare(
            "Prefix of the recording files, a prefix in a store (s3://BUCKET/PREFIX), or a database URL (sqlite:///FILE, "
            "postgresql://...). Required in mode record. "
            "In mode pinned, misses are recorded there and, with on_miss tune, the votes on them.",
            check_record_path, metavar="PREFIX|URL",
        ),
    )  # fmt: skip
    split: int | str | None = field(
        default=None,
        metadata=declare(
            "Number of ranks that share the timing of a recording run, or node for all ranks of a node: each rank times a part "
            "of every kernel's candidates. Such a run casts no votes; elect its table with export --policy fastest.",
            check_split, parse=parse_split, metavar="RANKS|node",
        ),
    )  # fmt: skip
    split_repeats: int = field(
        default=2,
        metadata=declare(
            "With --split, number of ranks that time each candidate.",
            check_repeats, parse=parse_integer, metavar="RANKS",
        ),
    )  # fmt: skip
    on_miss: str = field(
        default="nearest",
        metadata=declare(
            "What a pinned kernel does without a table entry: nearest chooses by the closest recorded keys, min_cost "
            "launches the candidate with the lowest static estimate, error raises LaunchError before anything is launched, "
            "tune lets Triton time the candidates, so ranks may differ.",
            one_of(ON_MISS), choices=ON_MISS,
        ),
    )  # fmt: skip
    block_sizes: BlockSizes = field(
        default_factory=dict,
        hash=False,
        metadata=declare(
            'Launch parameters to use if there is no table entry: BLOCK_M=64 for every kernel that has BLOCK_M, or as JSON '
            '{"pkg.kernel": {"BLOCK_M": 64}} for one kernel.',
            check_block_sizes, parse=parse_block_sizes, metavar="NAME=INT[,NAME=INT...]", separator=",",
        ),
    )  # fmt: skip
    config_invariant: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            "Kernels, by qualified or bare name, whose config cannot change their results. Without a table entry, Triton "
            "tunes them in mode pinned as well; agreement checks skip them.",
            check_names, parse=parse_names, metavar="KERNEL[,KERNEL...]", separator=",",
        ),
    )  # fmt: skip
    verify_every: int = field(
        default=0,
        metadata=declare(
            "Steps between two agreement checks of maybe_verify_choices; 0 turns them off.",
            check_steps, parse=parse_integer, metavar="STEPS",
        ),
    )  # fmt: skip
    verify_strict: bool = field(
        default=False,
        metadata=declare(
            "If ranks disagree, raise AgreementError on every rank. Otherwise rank 0 logs a warning.",
            check_flag, parse=parse_flag,
        ),
    )  # fmt: skip
    enumerate_autotuners: bool = field(
        default=False,
        metadata=declare(
            "Log each autotuner when it is first launched, and a coverage report at exit.",
            check_flag, parse=parse_flag,
        ),
    )  # fmt: skip
    report_html: StrPath | None = field(
        default=None,
        metadata=declare(
            "HTML file that rank 0 writes when the pinned job ends: its table, the keys that the table decided, misses, "
            "kernels that are not covered, and faults.",
            check_file, metavar="FILE",
        ),
    )  # fmt: skip
    check_launches: bool = field(
        default=False,
        metadata=declare(
            "For debugging: run the kernel's pruning at every pinned launch, and warn if two launches of a key would get "
            "different configs because pruning depends on an argument outside the key. Slow.",
            check_flag, parse=parse_flag,
        ),
    )  # fmt: skip
    audit: bool | str = field(
        default=False,
        metadata=declare(
            "While recording, run every candidate on copies of the call's tensors before it is timed, and record which "
            "candidates give equal bits: 1, or seeded (the same, with seeded values in floating-point tensors, so that "
            "results compare across ranks).",
            check_audit, parse=parse_audit, metavar="1|seeded",
        ),
    )  # fmt: skip
    audit_memory: int = field(
        default=2 << 30,
        metadata=declare(
            "Memory limit, in bytes, for copies of an audited call's tensors. Calls that need more are not audited.",
            check_bytes, parse=parse_integer, metavar="BYTES",
        ),
    )  # fmt: skip
    torch_compile: bool = field(
        default=True,
        metadata=declare(
            "Record and pin kernels under torch.compile like other launches. 0 leaves Inductor alone.",
            check_flag, parse=parse_on_off, metavar="1|0",
        ),
    )  # fmt: skip
    compile_ahead: bool = field(
        default=True,
        metadata=declare(
            "Compile the table's kernels in the background of a pinned job, from the file that export writes next to "
            "the table; while recording, keep what that file needs. 0 turns both off.",
            check_flag, parse=parse_on_off, metavar="1|0",
        ),
    )  # fmt: skip
    chaos: bool = field(
        default=False,
        metadata=declare(
            "Make ranks choose different configs on purpose, to prove that a check can fail. These choices never vote.",
            check_flag, parse=parse_flag,
        ),
    )  # fmt: skip
    run: str | None = field(
        default=None,
        metadata=declare("Name of the job in recordings. Default: the name given by the launcher.", check_run),
    )
    source: str | None = field(
        default=None, metadata=declare("Free text that is stored in recordings.", check_optional_text)
    )
    arch: str | None = field(
        default=None,
        metadata=declare("Architecture, such as sm90 or gfx942, to use instead of the detected one.", check_arch),
    )

    def __post_init__(self) -> None:
        """Check every field and freeze the collections."""
        for declared in fields(self):
            check = declaration_of(declared).check
            try:
                object.__setattr__(self, declared.name, check(getattr(self, declared.name)))
            except FormatError as fault:
                raise fault.under(declared.name) from None
        if self.mode == "record" and self.record_path is None:
            raise FormatError("mode 'record' requires a record path", ("record_path",))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> AutotunePolicy:
        """The policy with these field values; fields that are absent or None have their defaults.

        Raises:
            FormatError: A key is not a field, or a value is not accepted.
        """
        if not isinstance(mapping, Mapping):
            raise FormatError(f"expected a mapping of policy fields, found {kind_of(mapping)}")
        known = [f.name for f in fields(cls)]
        for key in mapping:
            if key not in known:
                raise FormatError(f"unknown policy field; the fields are {', '.join(known)}", (str(key),))
        return cls(**{name: value for name, value in mapping.items() if value is not None})

    def to_mapping(self) -> dict[str, Any]:
        """The fields that differ from their defaults; the inverse of `from_mapping`."""
        default = AutotunePolicy()
        pairs = ((f.name, getattr(self, f.name)) for f in fields(self))
        changed = {name: value for name, value in pairs if value != getattr(default, name)}
        if "block_sizes" in changed:
            changed["block_sizes"] = {
                name: dict(value) if isinstance(value, Mapping) else value for name, value in self.block_sizes.items()
            }
        return changed

    def __repr__(self) -> str:
        """The fields that differ from their defaults; a password in `record_path` is hidden."""
        stated = self.to_mapping()
        if self.record_path is not None:
            stated["record_path"] = shown_url(os.fspath(self.record_path))
        return f"AutotunePolicy({', '.join(f'{name}={value!r}' for name, value in stated.items())})"

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Any]], AutotunePolicy], tuple[dict[str, Any]]]:
        """Pickle as a mapping: policies are passed to spawned workers, and a read-only view cannot be pickled."""
        return AutotunePolicy.from_mapping, (self.to_mapping(),)

    def in_scope(self, kernel: str) -> bool:
        """Whether a kernel (qualified name) is in one of the packages of `modules`."""
        return not self.modules or any(kernel.startswith(module + ".") for module in self.modules)

    def is_invariant(self, kernel: str) -> bool:
        """Whether the policy states that a kernel's config cannot change its results."""
        return kernel in self.config_invariant or bare_name(kernel) in self.config_invariant

    def block_sizes_of(self, kernel: str) -> dict[str, int]:
        """The launch parameters for a kernel: those for all kernels, then by bare name, then by qualified name."""
        stated = {name: value for name, value in self.block_sizes.items() if isinstance(value, int)}
        for name in (bare_name(kernel), kernel):
            own = self.block_sizes.get(name)
            if isinstance(own, Mapping):
                stated |= own
        return stated
