"""What a training job wants from its autotuners: one immutable, checked value."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from tuning_registry.errors import FormatError
from tuning_registry.locations import DRIVERS, EXPECTED_URL, is_damaged_url, is_url, shown_url
from tuning_registry.model.canonical import check_text
from tuning_registry.model.names import bare_name, is_known_arch, normal_arch
from tuning_registry.runtime.options import MODES, ON_MISS, PREFIX, environment_fields

StrPath = str | os.PathLike[str]
BlockSizes = Mapping[str, int | Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AutotunePolicy:
    """How kernels of this process are tuned; checked when made.

    Attributes:
        mode: `auto` (Triton times as usual), `record` (as auto, and the choices are kept), `pinned` (nothing
            is timed) or None: `record` if a record path is given, `pinned` if determinism is asked for, else
            `auto`.
        modules: Top-level or nested packages whose kernels are in scope (`fla`, `fla.ops`); whole names only,
            so `fl` does not mean `fla`. Empty: every kernel.
        table_path: Table file, folder of tables, or a sequence of them, searched before the usual places.
        record_path: Prefix of the recording files (`/shared/rec`), or a database URL. Mode `record` needs it;
            in mode `pinned` the misses are kept there.
        on_miss: What a pinned kernel does without an entry: `min_cost` launches the cheapest candidate by the
            static estimate, `error` raises LaunchError before anything is launched.
        block_sizes: Launch parameters that stand in for a missing entry: `{"BLOCK_M": 64}` for every kernel
            that has them, `{"pkg.kernel": {"BLOCK_M": 64}}` for one.
        config_invariant: Kernels (qualified or bare names) whose config cannot change values: where the table
            has no entry Triton times them also in mode `pinned`, and agreement does not count them.
        verify_every: Steps between two agreement checks of `maybe_verify_choices`; 0 for none.
        verify_strict: A disagreement raises AgreementError on every rank; otherwise rank 0 warns once.
        enumerate_autotuners: Log every multi-config autotuner that is reached, and how it is treated.
        chaos: Make ranks differ on purpose, as the positive control of any check. Such choices never vote.
        run: Name of the job in recordings; None takes it from the launcher.
        source: Free text kept in recordings.
        arch: Architecture to use instead of the detected one.

    Raises:
        FormatError: A field has a wrong type or value; `path` names the field.
    """

    mode: str | None = None
    modules: tuple[str, ...] = ()
    table_path: StrPath | tuple[StrPath, ...] = ()
    record_path: StrPath | None = None
    on_miss: str = "min_cost"
    block_sizes: BlockSizes = field(default_factory=dict, hash=False)
    config_invariant: tuple[str, ...] = ()
    verify_every: int = 0
    verify_strict: bool = False
    enumerate_autotuners: bool = False
    chaos: bool = False
    run: str | None = None
    source: str | None = None
    arch: str | None = None

    def __post_init__(self) -> None:
        """Check every field and freeze the collections."""
        for name, check in _CHECKS.items():
            try:
                object.__setattr__(self, name, check(getattr(self, name)))
            except FormatError as fault:
                raise fault.under(name) from None
        if self.mode == "record" and self.record_path is None:
            raise FormatError("mode 'record' needs a record path", ("record_path",))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> AutotunePolicy:
        """The policy of a mapping from field names to values; absent fields keep their defaults.

        Raises:
            FormatError: A key is no field, or a value is not accepted.
        """
        if not isinstance(mapping, Mapping):
            raise FormatError(f"expected a mapping of policy fields, found {_kind(mapping)}")
        known = [f.name for f in fields(cls)]
        for key in mapping:
            if key not in known:
                raise FormatError(f"unknown policy field; known are {', '.join(known)}", (str(key),))
        return cls(**mapping)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> AutotunePolicy:
        """The policy that `TUNING_REGISTRY_*` variables state (see `options.environment_fields`).

        Raises:
            FormatError: A value is not accepted; `path` begins with the variable's name.
        """
        stated = environment_fields(environ)
        try:
            return cls(**stated)
        except FormatError as fault:
            raise FormatError(fault.what, (PREFIX + fault.path[0].upper(), *fault.path[1:])) from None

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
        """The fields that differ from their defaults; a password in `record_path` is not shown."""
        stated = self.to_mapping()
        if self.record_path is not None:
            stated["record_path"] = shown_url(os.fspath(self.record_path))
        return f"AutotunePolicy({', '.join(f'{name}={value!r}' for name, value in stated.items())})"

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Any]], AutotunePolicy], tuple[dict[str, Any]]]:
        """Pickle as a mapping: a read-only view has no pickled form, and spawned workers are given policies."""
        return AutotunePolicy.from_mapping, (self.to_mapping(),)

    def in_scope(self, kernel: str) -> bool:
        """Whether a kernel (qualified name) lies in one of the packages of `modules`."""
        return not self.modules or any(kernel.startswith(module + ".") for module in self.modules)

    def is_invariant(self, kernel: str) -> bool:
        """Whether a kernel's config is said to change no value."""
        return kernel in self.config_invariant or bare_name(kernel) in self.config_invariant

    def block_sizes_of(self, kernel: str) -> dict[str, int]:
        """The stated launch parameters for a kernel: those for all, overlaid by bare and qualified name."""
        stated = {name: value for name, value in self.block_sizes.items() if isinstance(value, int)}
        for name in (bare_name(kernel), kernel):
            own = self.block_sizes.get(name)
            if isinstance(own, Mapping):
                stated |= own
        return stated


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


def _one_of(choices: Sequence[str], optional: bool = False) -> Callable[[object], str | None]:
    def check(value: object) -> str | None:
        if value is None and optional:
            return None
        if not isinstance(value, str) or value not in choices:
            shown = repr(value) if isinstance(value, str) else _kind(value)
            raise FormatError(f"expected one of {', '.join(choices)}{' or None' if optional else ''}, found {shown}")
        return value

    return check


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
        raise FormatError(f"expected a sequence of names, found {_kind(value)}")
    names = tuple(sorted(value, key=str)) if isinstance(value, set | frozenset) else tuple(value)
    for name in names:
        if not isinstance(name, str) or not name or any(part == "" for part in name.split(".")):
            raise FormatError(f"expected dotted names, found {name!r}" if isinstance(name, str) else
                             f"expected strings, found {_kind(name)}")  # fmt: skip
        check_text(name)
    return names


def _path(value: object, *, may_be_url: bool = False) -> StrPath:
    if not isinstance(value, str | os.PathLike):
        raise FormatError(f"expected a path, found {_kind(value)}")
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        raise FormatError("expected a path that is not empty and holds no NUL")
    if is_damaged_url(text) or (is_url(text) and not may_be_url):  # not shown: it may hold a password
        raise FormatError(f"{EXPECTED_URL}, or a path" if may_be_url else "expected a path, found something like a URL")
    return value


def _paths(value: object) -> StrPath | tuple[StrPath, ...]:
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(_path(item) for item in value)
    return _path(value)


def _record_path(value: object) -> StrPath | None:
    if value is None:
        return None
    path = _path(value, may_be_url=True)
    text = os.fspath(path)
    if is_url(text):
        scheme = text.partition("://")[0]
        if scheme not in DRIVERS:
            raise FormatError(f"{scheme}:// is not supported; {EXPECTED_URL}, or the prefix of file names")
        place = text.partition("://")[2]
        if DRIVERS[scheme] == "sqlite" and (
            place[:1] != "/" or place == "/:memory:" or place[-1:] == "/" or "?" in place
        ):
            raise FormatError("expected the file of a database, sqlite:///FILE, without options; one in memory would end "
                              "with the process")  # fmt: skip
        if re.split("[/?]", place)[0].count("@") > 1:
            raise FormatError("the database URL has two @; in a user name or password write %40")
    elif text.endswith((".db", ".sqlite", ".sqlite3")):
        raise FormatError(f"{text!r} is named like a database; {EXPECTED_URL}, or a prefix of file names that is not")
    elif os.path.basename(text) in {"", ".", ".."}:  # noqa: PTH119  # Path("a/.") is a
        raise FormatError("expected the prefix of file names (folder/name), found a folder")
    return path


def _block_sizes(value: object) -> BlockSizes:
    if not isinstance(value, Mapping):
        raise FormatError(f"expected a mapping of names to integers, found {_kind(value)}")
    frozen: dict[str, int | Mapping[str, int]] = {}
    for name, stated in value.items():
        if not isinstance(name, str) or not name:
            raise FormatError(f"expected names, found {_kind(name) if name != '' else 'an empty one'}")
        if isinstance(stated, Mapping):
            inner = _block_sizes(stated)
            if any(isinstance(size, Mapping) for size in inner.values()):
                raise FormatError("expected {kernel: {parameter: integer}}, found it nested deeper", (name,))
            frozen[name] = inner  # type: ignore[assignment]
        elif type(stated) is int:
            frozen[name] = stated
        else:
            raise FormatError(f"expected an integer, found {_kind(stated)}", (name,))
    return MappingProxyType(frozen)


def _steps(value: object) -> int:
    if type(value) is not int or value < 0:
        raise FormatError(f"expected a number of steps from 0, found {value if type(value) is int else _kind(value)}")
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise FormatError(f"expected True or False, found {_kind(value)}")
    return value


def _text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise FormatError(f"expected a string, found {_kind(value)}")
    return check_text(value)


def _run(value: object) -> str | None:
    text = _text(value)
    if text is not None and not text.strip():
        raise FormatError("expected the name of a run, found an empty string")
    return text


def _arch(value: object) -> str | None:
    text = _text(value)
    if text is None:
        return None
    arch = normal_arch(text)
    if not is_known_arch(arch):
        raise FormatError(f"expected an architecture such as sm90 or gfx942, found {text!r}")
    return arch


_CHECKS: Final[Mapping[str, Callable[[object], object]]] = {
    "mode": _one_of(MODES, optional=True),
    "modules": _names,
    "table_path": _paths,
    "record_path": _record_path,
    "on_miss": _one_of(ON_MISS),
    "block_sizes": _block_sizes,
    "config_invariant": _names,
    "verify_every": _steps,
    "verify_strict": _flag,
    "enumerate_autotuners": _flag,
    "chaos": _flag,
    "run": _run,
    "source": _text,
    "arch": _arch,
}
