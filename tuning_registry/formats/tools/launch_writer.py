"""Files of tuned launch parameters, named and filled as vLLM and SGLang look them up.

Both tools compute the name of a file from the shape and the device, and convert every key in it to an integer. So a
name has the exact parts that its tool asks for, and a file states a Triton version only if the tool removes it first.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import SelectionError
from tuning_registry.formats.plugin import ElectedEntry, Outgoing, Written
from tuning_registry.formats.tools.launch_tables import DOWN, VERSION_KEY, Family
from tuning_registry.formats.tools.tactics import underscored
from tuning_registry.model.kinds import Kind, fields_of, kind_of
from tuning_registry.model.names import bare_name, split_key
from tuning_registry.wording import list_some

_SHAPE: Final = "block_shape"
_IS_DOWN: Final = "down"
_RELEASE: Final = re.compile(r"\d+\.\d+\.\d+")
_GROUPS: Final[tuple[tuple[str, str, Callable[[ElectedEntry], str]], ...]] = (
    ("Triton versions", "--triton", lambda entry: entry.triton or "none"),
    ("package versions", "--package", lambda entry: entry.version or "none"),
    ("devices", "--device", lambda entry: entry.device),
    ("architectures", "--arch", lambda entry: entry.arch),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files that a tool reads for one kernel.

    Attributes:
        family: The kernel, and the first parts of a file's name.
        parts: The parts after the device, in the order of the name.
        required: Those of them that every name has.
        folder: Folder below the output folder. It may contain `{triton}`, the version with underscores.
        comma: What the tool writes between the numbers of `block_shape`.
        states_version: Whether the tool accepts a Triton version in the file.
        device: How the tool spells a device.
        foreign: Launch parameters that the kernel of another tool has, and that of this tool does not.
        note: How to install the files, if the tool does not find them in the output folder.
    """

    family: Family
    parts: tuple[str, ...]
    required: frozenset[str] = frozenset()
    folder: str = ""
    comma: str = ","
    states_version: bool = False
    device: Callable[[str], str] = underscored
    foreign: frozenset[str] = frozenset()
    note: str = ""

    def has_file_for(self, kernel: str, fields: Mapping[str, str]) -> bool:
        """Whether the tool looks up a file for the fields of a shape key."""
        first, names = len(self.family.parts), tuple(fields)
        return (
            bare_name(kernel) == self.family.kernel
            and names[:first] == self.family.parts
            and names[-1:] == (self.family.bucket,)
            and fields[self.family.bucket].isdecimal()
            and self.required <= set(names[first:-1]) <= {*self.parts}
            and not any("/" in value for value in fields.values())
        )

    def path(self, fields: Mapping[str, str], entry: ElectedEntry) -> str:
        """The file for an entry, below the output folder."""
        shown = {**fields, _SHAPE: fields.get(_SHAPE, "").replace(",", self.comma)}
        names = [name for name in self.parts if name in fields and name != _IS_DOWN]
        stem = ",".join(
            [f"{name}={shown[name]}" for name in self.family.parts]
            + [f"device_name={self.device(entry.device)}"]
            + [f"{name}={shown[name]}" for name in names]
        )
        folder = self.folder.format(triton=entry.triton.replace(".", "_"))
        return f"{folder}{'/' if folder else ''}{stem}{DOWN if _IS_DOWN in fields else ''}.json"

    def problem(self, entry: ElectedEntry) -> str | None:
        """Why the tool cannot use an entry; None if it can."""
        if not entry.device:
            return "their device is unknown (state it with registry ingest --device DEVICE)"
        if "{" in self.folder and not _RELEASE.fullmatch(entry.triton):
            return "their Triton version is unknown (state it with registry ingest --triton VERSION)"
        foreign = sorted(fields_of(entry.config).keys() & self.foreign)
        return f"the tool's kernel does not have their launch parameters {', '.join(foreign)}" if foreign else None


def write_tables(chosen: Outgoing, layouts: Sequence[Layout]) -> Written:
    """One file for each shape and device, and each Triton version if the tool has a folder for it.

    Raises:
        SelectionError: The entries of a file are for several versions, or a batch size has several configs.
    """
    left_out: Counter[str] = Counter()
    found: dict[str, dict[int, list[ElectedEntry]]] = defaultdict(lambda: defaultdict(list))
    used: dict[str, Layout] = {}
    for entry in chosen.entries:
        fields = _fields(entry.key)
        layout = next((one for one in layouts if one.has_file_for(entry.kernel, fields)), None)
        if kind_of(entry.config) is not Kind.LAUNCH:
            left_out["their config does not consist of launch parameters"] += 1
        elif layout is None:
            left_out["the tool does not look up a file for their kernel and key"] += 1
        elif (problem := layout.problem(entry)) is not None:
            left_out[problem] += 1
        else:
            path = layout.path(fields, entry)
            used[path] = layout
            found[path][int(fields[layout.family.bucket])].append(entry)
    return Written(
        files={path: _table(path, entries, used[path]) for path, entries in sorted(found.items())},
        left_out=left_out,
        notes=sorted({layout.note for layout in used.values()} - {""}),
    )


def _fields(key: str) -> Mapping[str, str]:
    """The named values of a shape key; none if it also has values without names."""
    parts = [part.partition("=") for part in split_key(key)]
    return {name: value for name, _, value in parts} if all(equals for _, equals, _ in parts) else {}


def _table(path: str, entries: Mapping[int, Sequence[ElectedEntry]], layout: Layout) -> bytes:
    """The content of a file. The tools take the nearest batch size, the first one if two are equally near."""
    together = [entry for several in entries.values() for entry in several]
    for what, option, value_of in _GROUPS:
        values = sorted({value_of(entry) for entry in together})
        if len(values) > 1:
            raise SelectionError(
                f"the entries for the file {path} are for {len(values)} {what}: {list_some(values)}. Choose one with {option}"
            )
    if repeated := [several for several in entries.values() if len(several) > 1]:
        keys = list_some([f"{entry.kernel} {entry.key}" for entry in repeated[0]])
        raise SelectionError(
            f"the file {path} can have one config per batch size, but several entries have the same one: {keys}"
        )
    document: dict[str, Any] = {str(size): fields_of(entries[size][0].config) for size in sorted(entries)}
    if layout.states_version and together[0].triton:
        document = {VERSION_KEY: together[0].triton, **document}
    return (json.dumps(document, indent=4) + "\n").encode()
