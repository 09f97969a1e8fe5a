"""Everything that is wrong with the form of a table file, entry by entry. Needs no database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tuning_registry.errors import FileError, FormatError, RecordingError, describe, printable
from tuning_registry.formats.files import parse_json, read_bytes
from tuning_registry.formats.sections import read_entries
from tuning_registry.formats.stores import Place
from tuning_registry.formats.table import TunedTable
from tuning_registry.formats.table_evidence import decode_evidence
from tuning_registry.formats.table_header import EXTRA, check_shape
from tuning_registry.model.canonical import config_text, text_digest
from tuning_registry.model.names import is_known_arch, lookup_key, normal_arch
from tuning_registry.model.results import Result


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableProblem(Result):
    """One thing that is wrong with a table file.

    Attributes:
        file: The file.
        kernel, key: The entry; empty if the problem is not about a single entry.
        field: Place below the entry or, without one, in the file: `num_warps`, `tuning_registry/version`.
        problem: What is wrong.
        expected: What belongs there instead; empty if `problem` says it.
    """

    file: str
    kernel: str = ""
    key: str = ""
    field: str = ""
    problem: str
    expected: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The problem as JSON holds it."""
        return asdict(self)

    def __str__(self) -> str:
        """One readable line."""
        places = [f'kernel "{self.kernel}"'] if self.kernel else []
        places += [f'key "{self.key}"'] if self.key else []
        where = ", ".join(places)
        parts = [self.file, *([where] if where else []), *([self.field] if self.field else [])]
        expected = f"; expected {self.expected}" if self.expected else ""
        return printable(f"{': '.join(parts)}: {self.problem}{expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedTable:
    """A table file with its problems.

    Attributes:
        file: The file.
        entries: Number of entries that can be used.
        problems: What is wrong; the form of the table is valid if there is nothing.
    """

    file: str
    entries: int
    problems: list[TableProblem] = field(default_factory=list)


def validate_table(path: Place) -> ValidatedTable:
    """Check the form of a table file: ours, or one that another tool or a person wrote.

    Checks that it can be read, its header, every name and config, its evidence, its digest, and that no two keys of a kernel mean the
    same call. Does not need the database that it comes from, and does not judge its configs.
    """
    file = str(path)
    try:
        document = parse_json(read_bytes(path), file)
    except (FileError, RecordingError) as fault:
        text = str(fault).removeprefix(f"{file}: ")
        return ValidatedTable(file=file, entries=0, problems=[TableProblem(file=file, problem=text)])
    problems = [*_header_problems(document, path)]
    kernels = document.get("kernels") if isinstance(document, dict) else None
    if not isinstance(kernels, dict):
        return ValidatedTable(file=file, entries=0, problems=problems)
    usable: dict[str, dict[str, str]] = {}
    for kernel, entries in kernels.items():
        problems += _kernel_problems(file, kernel, entries, usable)
    problems += _evidence_problems(file, document)
    if not problems:
        problems += _digest_problems(file, document)
    return ValidatedTable(file=file, entries=sum(map(len, usable.values())), problems=problems)


def _header_problems(document: Any, path: Place) -> Iterator[TableProblem]:
    named = normal_arch(path.stem)
    try:
        if isinstance(document, dict) and "kernels" in document and is_known_arch(named):
            document.setdefault("arch", named)
        check_shape(document)
        provenance = {name: value for name, value in document.items() if name not in {"arch", "kernels", EXTRA}}
        ours = document.get(EXTRA, {})  # the evidence is checked row by row
        provenance[EXTRA] = {name: value for name, value in ours.items() if name != "evidence"}
        table = TunedTable(document["arch"], {}, provenance)
    except FormatError as fault:
        yield _problem(str(path), fault)
        return
    for name, version in provenance.get("packages", {}).items():
        if not isinstance(version, str):
            yield TableProblem(
                file=str(path), field=f"packages/{name}", problem=f"found {describe(version)}", expected="a string"
            )
    if is_known_arch(named) and table.arch != named:
        text = f"the table is for {table.arch}, but its name says {named}, so it is never loaded"
        yield TableProblem(
            file=str(path), field="arch", problem=text, expected=f"{named}, or the name {table.arch}.json"
        )


def _kernel_problems(
    file: str, kernel: str, entries: object, usable: dict[str, dict[str, str]]
) -> Iterator[TableProblem]:
    if not isinstance(entries, dict) or not entries:
        try:
            read_entries({"kernels": {kernel: entries}}, config_text)
        except FormatError as fault:
            yield _problem(file, FormatError(fault.what), kernel)
        return
    spelt: dict[str, str] = {}
    for key, config in entries.items():
        try:
            text = read_entries({"kernels": {kernel: {key: config}}}, config_text)["kernels"][kernel][key]
        except FormatError as fault:
            yield _problem(file, FormatError(fault.what, fault.path[3:]), kernel, key)
            continue
        usable.setdefault(kernel, {})[key] = text
        other = spelt.setdefault(lookup_key(key), key)
        if usable[kernel].get(other) != text:
            problem = f'Triton cannot tell it from the key "{other}", which has another config'
            yield TableProblem(file=file, kernel=kernel, key=key, problem=problem, expected="one of them")


def _evidence_problems(file: str, document: Any) -> Iterator[TableProblem]:
    """What is wrong with the evidence; a row is named by the kernel and key that it is about."""
    ours = document.get(EXTRA)
    if not isinstance(ours, dict) or "evidence" not in ours:
        return
    kernels = {kernel: entries for kernel, entries in document["kernels"].items() if isinstance(entries, dict)}
    try:
        rows = decode_evidence(ours["evidence"], kernels)
    except FormatError:
        for fault in _faults_in(ours["evidence"]):
            yield _evidence_problem(file, fault, kernels)
        return
    for kernel, by_key in rows.items():
        for key, row in by_key.items():
            if 0 not in row.values():
                yield TableProblem(file=file, kernel=kernel, key=key, field=f"{EXTRA}/evidence",
                                   problem="no candidate is the fastest", expected="a slowdown of 0")  # fmt: skip


def _faults_in(evidence: Any) -> Iterator[FormatError]:
    """Every fault of an `evidence` object: what is wrong with it, else with its kernels, else with their rows."""
    parts = evidence.get("kernels") if isinstance(evidence, dict) else None
    fault = _fault_of({**evidence, "kernels": {}} if isinstance(parts, dict) else evidence)
    if fault is not None or not isinstance(parts, dict):
        yield from [fault] if fault else []
        return
    for kernel, value in parts.items():
        rows = value.get("slowdowns") if isinstance(value, dict) else None
        without = {**value, "slowdowns": {}} if isinstance(rows, dict) else value
        fault = _fault_of({**evidence, "kernels": {kernel: without}})
        if fault is not None or not isinstance(rows, dict):
            yield from [fault] if fault else []
            continue
        each = (_fault_of({**evidence, "kernels": {kernel: {**value, "slowdowns": {digest: row}}}})
                for digest, row in rows.items())  # fmt: skip
        yield from (fault for fault in each if fault is not None)


def _fault_of(evidence: Any) -> FormatError | None:
    try:
        decode_evidence(evidence, {})
    except FormatError as fault:
        return fault
    return None


def _evidence_problem(file: str, fault: FormatError, kernels: Mapping[str, Mapping[str, Any]]) -> TableProblem:
    _, kernel, part, digest, *_ = (*fault.path, "", "", "", "")
    keys = kernels.get(kernel, {}) if part == "slowdowns" else {}
    key = next((key for key in keys if digest and text_digest(key).startswith(digest)), "")
    return _problem(file, fault.under(EXTRA, "evidence"), kernel, key)


def _digest_problems(file: str, document: Any) -> Iterator[TableProblem]:
    ours = document.get(EXTRA, {})
    table = TunedTable(document["arch"], document["kernels"], {EXTRA: ours})
    for name, found in (("digest", table.digest), ("selection_digest", table.selection_digest)):
        if name in ours and ours[name] != found:
            problem = f"{describe(ours[name])} is not the digest of the file's content, so the file was edited"
            yield TableProblem(file=file, field=f"{EXTRA}/{name}", problem=problem, expected=found)


def _problem(file: str, fault: FormatError, kernel: str = "", key: str = "") -> TableProblem:
    """A problem with what was found and what was expected apart, if the fault names both."""
    what, expected = fault.what, ""
    head, found, tail = what.partition(", found ")
    if head.startswith("expected ") and found:
        what, expected = f"found {tail}", head.removeprefix("expected ")
    elif "; expected " in what:
        what, _, expected = what.partition("; expected ")
    return TableProblem(file=file, kernel=kernel, key=key, field="/".join(fault.path), problem=what, expected=expected)
