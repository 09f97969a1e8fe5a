"""The per-arch table: building it, writing it, finding the live candidate of an entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from tuning_registry.errors import FormatError, RecordingError, TableError
from tuning_registry.formats.files import kind_of, parse_json, read_bytes
from tuning_registry.formats.sections import read_entries
from tuning_registry.log import warn
from tuning_registry.model.canonical import (
    check_text,
    config_text,
    describe,
    dump_json,
    live_config_text,
    load_config,
    text_digest,
)
from tuning_registry.model.names import (
    ANY_KEY,
    bare_name,
    is_known_arch,
    is_positional,
    lookup_key,
    normal_arch,
    positional_key,
)

EXTRA: Final = "tuning_registry"  # the one top-level object that is ours; everything else is the seed's
FORMAT_VERSION: Final = 1

C = TypeVar("C")
Kernels = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Match(Generic[C]):
    """The answer to a lookup.

    Attributes:
        candidate: The live candidate object the table names; None on a miss.
        reason: Empty on a hit, else one of `no table`, `no kernel`, `ambiguous name`, `no key`,
            `not a candidate`, `ambiguous config`.
        kernel: The table's kernel name that matched, empty if none did.
        key: The table's key that matched (perhaps `*`), empty if none did.
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

    Raises:
        FormatError: A name or a config is not accepted; `path` leads to it.

    False in a boolean context when it holds no kernel.
    """

    def __init__(self, arch: str, kernels: Kernels, provenance: Mapping[str, Any] | None = None) -> None:
        self.arch = normal_arch(check_text(arch, ("arch",)))
        self.provenance: dict[str, Any] = dict(provenance or {})
        texts = read_entries({"table": kernels}, config_text)["table"]
        self._texts = texts
        self._spellings = {kernel: _spellings(entries) for kernel, entries in texts.items()}
        # Kernels known by the name of each bare entry; the table's own qualified entries are the first of them.
        self._users: dict[str, set[str]] = {}
        self.declare(kernel for kernel in texts if kernel != bare_name(kernel) and bare_name(kernel) in texts)

    def __bool__(self) -> bool:
        """Whether there is anything to look up."""
        return bool(self._texts)

    def __len__(self) -> int:
        """The number of entries."""
        return sum(map(len, self._texts.values()))

    def __repr__(self) -> str:
        """Arch and size, for logs."""
        return f"<TunedTable {self.arch}: {len(self._texts)} kernels, {len(self)} entries>"

    @property
    def kernels(self) -> dict[str, dict[str, dict[str, Any]]]:
        """`{kernel: {key: config}}`, every config with its six fields."""
        return {
            kernel: {key: load_config(text) for key, text in entries.items()} for kernel, entries in self._texts.items()
        }

    @property
    def texts(self) -> Mapping[str, Mapping[str, str]]:
        """`{kernel: {key: canonical text}}`, in the table's own spelling."""
        return self._texts

    @property
    def packages(self) -> dict[str, str]:
        """Version by distribution, as the table states it; what is no text, in words."""
        stated = self.provenance.get("packages") or {}
        return {name: version if isinstance(version, str) else describe(version) for name, version in stated.items()}

    @property
    def has_bare_names(self) -> bool:
        """Whether an entry names its kernel without a module: then `declare` matters."""
        return any("." not in kernel for kernel in self._texts)

    @property
    def digest(self) -> str:
        """SHA-256 of the kernels, the one a table file states: equal digests pin equal choices."""
        return kernels_digest(self.kernels)

    def lookup(self, kernel: str, key: str, candidates: Sequence[C]) -> C | None:
        """The live candidate that the table names for this kernel and key, or None (see `find`)."""
        return self.find(kernel, key, candidates).candidate

    def text_for(self, kernel: str, key: str) -> str | None:
        """Canonical text of the config that the table holds for a kernel and key, in the order of `find`."""
        for name in dict.fromkeys((kernel, bare_name(kernel))):
            entries = self._texts.get(name)
            found = self._spelling(name, entries, key) if entries else None
            if entries and (found is not None or ANY_KEY in entries):
                return entries[ANY_KEY if found is None else found]
        return None

    def find(self, kernel: str, key: str, candidates: Sequence[C]) -> Match[C]:
        """Look an entry up and match it to a live candidate, saying why where there is none.

        The first of these that exists decides: qualified name with this key, qualified name with `*`,
        bare name with this key, bare name with `*`. An entry that names no live candidate is a miss and
        does not fall through. The candidate is returned as the object it is, hooks and all; it is found
        by its fields, never by `==`. An entry that names several candidates, which differ in their hook
        alone, names none: a hook is no field, so the entry cannot say which of them was meant.

        Args:
            kernel: `fn.__module__ + "." + fn.__name__`, or a bare name.
            key: The shape key (`names.format_key`).
            candidates: The kernel's live `triton.Config` objects.
        """
        if not self._texts:
            return Match(None, "no table")
        if not isinstance(key, str):
            return Match(None, "no key")
        reason = "no kernel"
        for name in dict.fromkeys((kernel, bare_name(kernel))):
            entries = self._texts.get(name)
            if entries is None:
                continue
            if name != kernel and self._is_ambiguous(name, kernel):
                return Match(None, "ambiguous name", name)
            found = self._spelling(name, entries, key)
            if found is None and ANY_KEY in entries:
                found = ANY_KEY
            if found is not None:
                return Match(*_matching(entries[found], candidates), name, found)
            reason = "no key"
        return Match(None, reason)

    def declare(self, kernels: Iterable[str]) -> None:
        """Say which qualified kernels this process has, before looking any of them up.

        A bare name in the table serves a kernel only while no other kernel of that name is known. Declaring
        them all first makes the answer the same whichever is launched first.
        """
        for kernel in kernels:
            self._users.setdefault(bare_name(kernel), set()).add(kernel)

    def _is_ambiguous(self, name: str, kernel: str) -> bool:
        users = self._users.setdefault(name, set())
        if kernel not in users:
            users.add(kernel)
        if len(users) > 1:
            warn(
                "table entry %s could mean %s: not pinned. Record again: new recordings carry "
                "qualified names.", name, " or ".join(sorted(users)),
            )  # fmt: skip
        return len(users) > 1

    def _spelling(self, kernel: str, entries: Mapping[str, str], key: str) -> str | None:
        """The spelling under which the table holds `key`: itself, an equal one, or one without names."""
        if key in entries:
            return key
        equal = self._spellings[kernel]
        return equal.get(lookup_key(key)) or equal.get(positional_key(key))


def _spellings(entries: Mapping[str, str]) -> dict[str, str]:
    """Each key of a kernel by its lookup spelling; of equal keys the smallest spelling stands."""
    equal: dict[str, str] = {}
    for key in sorted(entries):
        equal.setdefault(positional_key(key) if is_positional(key) else lookup_key(key), key)
    return equal


def _matching(text: str, candidates: Iterable[C]) -> tuple[C | None, str]:
    """The one candidate of this text, or the reason why there is none."""
    matches = [candidate for candidate in candidates if live_config_text(candidate) == text]
    if not matches:
        return None, "not a candidate"
    hook = getattr(matches[0], "pre_hook", None)
    if any(getattr(other, "pre_hook", None) != hook for other in matches[1:]):
        return None, "ambiguous config"
    return matches[0], ""


def kernels_digest(kernels: Kernels) -> str:
    """SHA-256 of `json.dumps(kernels, sort_keys=True)`."""
    return text_digest(dump_json(kernels))


def table_payload(arch: str, kernels: Kernels, source: str = "", *, triton: str = "",
                  packages: Mapping[str, str] | None = None, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:  # fmt: skip
    """The content of a table file.

    Args:
        arch: Architecture.
        kernels: `{kernel: {key: config}}`; missing optional config fields are filled in.
        source: Free text: which recording it comes from.
        triton: Triton version of the recordings; empty when unknown.
        packages: Version by distribution, as recorded.
        extra: Further fields for our own top-level object (policy, runs, ...).

    Raises:
        FormatError: A name or config is not accepted.
    """
    full = TunedTable(arch, kernels).kernels
    ours = {"version": FORMAT_VERSION, "digest": kernels_digest(full), **(extra or {})}
    return {"arch": normal_arch(arch), "triton": triton, "packages": dict(packages or {}), "source": source,
            "kernels": full, EXTRA: ours}  # fmt: skip


def table_bytes(payload: Mapping[str, Any]) -> bytes:
    """The one byte sequence of a table: UTF-8, LF, one final newline, whatever the platform."""
    return (dump_json(payload, indent=1) + "\n").encode()


def read_table(path: Path) -> TunedTable:
    """The table in a file.

    Raises:
        FileError: The file cannot be read.
        TableError: It is no table; says where and what was expected.
    """
    file = str(path)
    try:
        document = parse_json(read_bytes(path), file)
        _check_shape(document)
        provenance = {name: value for name, value in document.items() if name not in {"arch", "kernels"}}
        table = TunedTable(document["arch"], document["kernels"], provenance)
    except RecordingError as fault:
        raise TableError(str(fault)) from fault
    except FormatError as fault:
        path_shown = tuple(step for step in fault.path if step != "table")
        raise TableError(str(RecordingError(file, fault.what, path_shown))) from fault
    return table


def _what_instead(document: object) -> str:
    if not isinstance(document, dict) or document.keys() & {"arch", "kernels"}:
        return ""
    if "format" in document or any(is_known_arch(normal_arch(name)) for name in document):
        return "; this is a recording, which `registry export` makes a table of"
    found = kind_of(document)
    return f"; this is {found}" if found else ""


def _check_shape(document: object) -> None:
    if not isinstance(document, dict) or "arch" not in document or "kernels" not in document:
        raise FormatError(f"not a per-arch table: expected an object with arch and kernels{_what_instead(document)}")
    for name, kind in (("arch", str), ("kernels", dict), ("triton", str), ("packages", dict), ("source", str)):
        value = document.get(name, kind())
        if not isinstance(value, kind):
            raise FormatError(
                f"expected {'a string' if kind is str else 'an object'}, found {describe(value)}", (name,)
            )
    if not document["arch"]:
        raise FormatError("an empty name", ("arch",))
    ours = document.get(EXTRA, {})
    version = ours.get("version", FORMAT_VERSION) if isinstance(ours, dict) else None
    if type(version) is not int or version > FORMAT_VERSION:
        raise FormatError(f"expected table version {FORMAT_VERSION}, found {describe(version)}", (EXTRA, "version"))
