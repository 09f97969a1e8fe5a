"""The per-arch table: reading it, building its bytes, and finding the live candidate of an entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tuning_registry.errors import FormatError, RecordingError, TableError, describe
from tuning_registry.formats.bans import Bans
from tuning_registry.formats.files import parse_json, read_bytes
from tuning_registry.formats.matching import matching_candidate
from tuning_registry.formats.sections import read_arch, read_entries
from tuning_registry.formats.stores import Place
from tuning_registry.formats.table_evidence import KernelEvidence, decode_evidence
from tuning_registry.formats.table_header import (
    EXTRA,
    FORMAT_VERSION,
    Kernels,
    check_shape,
    kernels_digest,
    selection_digest,
    with_rule,
)
from tuning_registry.model.canonical import config_text, dump_json, load_config
from tuning_registry.model.names import (
    ANY_KEY,
    bare_name,
    check_text,
    is_known_arch,
    is_positional,
    lookup_key,
    normal_arch,
    positional_key,
)
from tuning_registry.wording import count_of

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Match(Generic[C]):
    """The answer to a lookup.

    Attributes:
        candidate: The live candidate object that the table names; None on a miss.
        reason: Empty on a hit, otherwise one of `no table`, `no kernel`, `no key`, `unusable entry`, `banned`,
            `not a candidate`, `ambiguous config`.
        kernel: The kernel name in the table that matched; empty if none did.
        key: The key in the table that matched (`*` for any key); empty if none did.
    """

    candidate: C | None
    reason: str
    kernel: str = ""
    key: str = ""


class TunedTable:
    """The tuned configs of one architecture.

    Args:
        arch: The architecture, in any accepted spelling.
        kernels: `{kernel: {key: config}}`; configs as in a table file.
        provenance: The other fields of the file: `triton`, `packages`, `source`, `tuning_registry`.
        keep_unusable: Keep entries whose config is not accepted in `unusable`, instead of raising an error.

    Attributes:
        unusable: Why an entry cannot be used, by kernel and key. Looking it up is a miss.
        bans: The bans that the table carries in `tuning_registry.overrides`.
        evidence: The slowdowns in `tuning_registry.evidence`, by kernel and key.

    Raises:
        FormatError: A name or a config is not accepted; `path` leads to it.

    A table without kernels is false in a boolean context.
    """

    def __init__(
        self, arch: str, kernels: Kernels, provenance: Mapping[str, Any] | None = None, *, keep_unusable: bool = False
    ) -> None:
        self.arch = read_arch(check_text(arch, ("arch",)), ("arch",))
        self.provenance: dict[str, Any] = dict(provenance or {})
        held = read_entries({"kernels": kernels}, _text_or_fault if keep_unusable else config_text)["kernels"]
        self.unusable: dict[tuple[str, str], str] = {
            (kernel, key): str(text)
            for kernel, entries in held.items()
            for key, text in entries.items()
            if isinstance(text, FormatError)
        }
        self._texts = {
            kernel: {key: text for key, text in entries.items() if isinstance(text, str)}
            for kernel, entries in held.items()
        }
        self._spellings = {kernel: _spellings(entries) for kernel, entries in held.items()}
        ours = self.provenance.get(EXTRA)
        ours = ours if isinstance(ours, Mapping) else {}
        try:
            self.bans = Bans(ours.get("overrides", ()))
        except FormatError as fault:
            raise fault.under(EXTRA, "overrides") from fault
        self.evidence: dict[str, KernelEvidence] = {}
        if "evidence" in ours:
            try:
                self.evidence = decode_evidence(ours["evidence"], self._texts)
            except FormatError as fault:
                raise fault.under(EXTRA, "evidence") from fault

    def __bool__(self) -> bool:
        """Whether the table holds a kernel."""
        return bool(self._texts)

    def __len__(self) -> int:
        """The number of entries that can be used."""
        return sum(map(len, self._texts.values()))

    def __repr__(self) -> str:
        """The architecture and the size, for logs."""
        return f"<TunedTable {self.arch}: {count_of(len(self._texts), 'kernel')}, {count_of(len(self), 'entry')}>"

    @property
    def kernels(self) -> dict[str, dict[str, dict[str, Any]]]:
        """`{kernel: {key: config}}` of the entries that can be used, every config with its six fields."""
        return {
            kernel: {key: load_config(text) for key, text in entries.items()} for kernel, entries in self._texts.items()
        }

    @property
    def texts(self) -> Mapping[str, Mapping[str, str]]:
        """`{kernel: {key: canonical text}}` of the entries that can be used, with keys as the table spells them."""
        return self._texts

    @property
    def packages(self) -> dict[str, str]:
        """Version by distribution, as stated in the table; a value that is not a string is described."""
        stated = self.provenance.get("packages") or {}
        return {name: version if isinstance(version, str) else describe(version) for name, version in stated.items()}

    @property
    def digest(self) -> str:
        """SHA-256 of the kernels, as a table file states it."""
        kernels: dict[str, dict[str, Any]] = dict(self.kernels)
        for kernel, key in self.unusable:
            kernels[kernel][key] = None
        return kernels_digest(kernels)

    @property
    def selection_digest(self) -> str:
        """SHA-256 of everything that decides a launch (`selection_digest`). Equal digests mean equal choices."""
        return selection_digest(self.digest, self.provenance.get(EXTRA), self.bans)

    def lookup(self, kernel: str, key: str, candidates: Sequence[C]) -> C | None:
        """The live candidate that the table names for this kernel and key, or None (see `find`)."""
        return self.find(kernel, key, candidates).candidate

    def text_for(self, kernel: str, key: str) -> str | None:
        """The canonical text that the table serves for a kernel and key, looked up like `find`; None if it is banned."""
        for name in dict.fromkeys((kernel, bare_name(kernel))):
            found = self._spelling(name, key)
            if found is not None:
                text = self._texts[name].get(found)
                return None if self.bans.forbids(kernel, key, text) else text
        return None

    def find(self, kernel: str, key: str, candidates: Sequence[C], other_spellings: Sequence[str] = ()) -> Match[C]:
        """Look up an entry and match it to a live candidate; a miss has a reason.

        The first of these that exists decides: qualified name with this key, qualified name with `*`,
        bare name with this key, bare name with `*`. An entry that cannot be used, is banned, or matches no live
        candidate, is a miss; the search does not go on. An entry with a bare name serves every kernel of that function
        name. The answer depends on the arguments and the table only.

        The candidate itself is returned, with its hooks. It is found by its fields, never by `==`. An entry that matches
        several candidates, which differ only in their hooks, is a miss as well.

        Args:
            kernel: `fn.__module__ + "." + fn.__name__`, or a bare name.
            key: The shape key (`names.format_key`).
            candidates: The kernel's live `triton.Config` objects.
            other_spellings: Keys that other tools write for the same call. They are tried in order after `key` and
                before `*`.
        """
        if not self._texts:
            return Match(None, "no table")
        if not isinstance(key, str):
            return Match(None, "no key")
        reason = "no kernel"
        for name in dict.fromkeys((kernel, bare_name(kernel))):
            if name not in self._texts:
                continue
            found = self._spelling(name, key, other_spellings)
            if (name, found) in self.unusable:
                return Match(None, "unusable entry", name, str(found))
            if found is not None:
                text = self._texts[name][found]
                if self.bans.forbids(kernel, key, text, other_spellings):
                    return Match(None, "banned", name, found)
                return Match(*matching_candidate(text, candidates), name, found)
            reason = "no key"
        return Match(None, reason)

    def _spelling(self, kernel: str, key: str, others: Sequence[str] = ()) -> str | None:
        """The key in the table that decides about `key`: an equal one, one without names, or `*`.

        If the table has several spellings of one key, the smallest decides for all of them. Triton cannot tell them
        apart, so the spelling of a call depends on which launch came first.
        """
        equal = self._spellings.get(kernel, {})
        for spelt in (key, *others):
            found = equal.get(lookup_key(spelt)) or equal.get(positional_key(spelt))
            if found:
                return found
        return equal.get(ANY_KEY)


def _text_or_fault(config: object) -> str | FormatError:
    """The canonical text of a config, or why it has none."""
    try:
        return config_text(config)
    except FormatError as fault:
        return fault


def _spellings(entries: Iterable[str]) -> dict[str, str]:
    """Each key of a kernel by its lookup spelling; of equal keys the smallest."""
    equal: dict[str, str] = {}
    for key in sorted(entries):
        equal.setdefault(positional_key(key) if is_positional(key) else lookup_key(key), key)
    return equal


def table_payload(arch: str, kernels: Kernels, source: str = "", *, triton: str = "",
                  packages: Mapping[str, str] | None = None, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:  # fmt: skip
    """The content of a table file.

    Args:
        arch: Architecture.
        kernels: `{kernel: {key: config}}`; missing optional config fields are filled in.
        source: Free text: which recording it comes from.
        triton: Triton version of the recordings; empty if unknown.
        packages: Version by distribution, as recorded.
        extra: Further fields for the top-level object `tuning_registry` (policy, runs, evidence, ...).

    Raises:
        FormatError: A name or config is not accepted.
    """
    extra = with_rule(extra or {})
    table = TunedTable(arch, kernels, {EXTRA: extra})
    full = table.kernels
    ours = {"version": FORMAT_VERSION, "digest": kernels_digest(full), **extra}
    if table.selection_digest != ours["digest"]:
        ours["selection_digest"] = table.selection_digest
    return {"arch": normal_arch(arch), "triton": triton, "packages": dict(packages or {}), "source": source,
            "kernels": full, EXTRA: ours}  # fmt: skip


def table_bytes(payload: Mapping[str, Any]) -> bytes:
    """The bytes of a table, the same on every platform: UTF-8, LF, one final newline."""
    return (dump_json(payload, indent=1) + "\n").encode()


def read_table(path: Place) -> TunedTable:
    """The table in a file or object.

    Entries that cannot be used are kept apart in `TunedTable.unusable`. If the file does not state an architecture, its
    name (`sm90.json`) does.

    Raises:
        FileError: The file cannot be read.
        TableError: It is not a table; names the place and what was expected.
    """
    file = str(path)
    try:
        document = parse_json(read_bytes(path), file)
        arch = normal_arch(path.stem)
        if isinstance(document, dict) and "kernels" in document and is_known_arch(arch):
            document.setdefault("arch", arch)
        check_shape(document)
        provenance = {name: value for name, value in document.items() if name not in {"arch", "kernels"}}
        table = TunedTable(document["arch"], document["kernels"], provenance, keep_unusable=True)
    except RecordingError as fault:
        raise TableError(str(fault)) from fault
    except FormatError as fault:
        raise TableError(str(RecordingError(file, fault.what, fault.path))) from fault
    return table
