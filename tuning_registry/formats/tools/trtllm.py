"""Caches of TensorRT-LLM's autotuner, `autotune(cache_path=...)`.

Newer releases write one file of all ranks, `{"metadata": {"lib_version": "1.3.0", "device_name": "NVIDIA B200",
"device_capability": [10, 0]}, "rank_0": {CACHE KEY: {"runner_id": 0, "tactic": "[8, 17]", "min_time": 0.006}}}`, in
which a tactic is the text of a Python value. Older ones write `NAME.rank0.json` with `cache_data` instead of
`rank_0`, in which it is JSON. A cache key is `('op', 'Runner', ID, (shapes))`; the ID may hold the rank, or is a
number of the process. Source: `tensorrt_llm/_torch/autotuner.py`, `AutoTunerProfilingCache`, of 2025 and 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, RecordingError, describe
from tuning_registry.formats.plugin import Format, ToolFile, choices_of
from tuning_registry.formats.stores import Place
from tuning_registry.formats.tools.reprs import items_of, string_of, value_of
from tuning_registry.formats.tools.tactics import Chosen, Slots, read_tactic, underscored
from tuning_registry.formats.tools.winners import read_time, with_unknown_candidates
from tuning_registry.model.devices import arch_of_device
from tuning_registry.model.names import check_text, normal_arch
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Header, Recording

PACKAGE: Final = "tensorrt-llm"
MODULE: Final = "tensorrt_llm"
_METADATA: Final = "metadata"
_VERSION: Final = "lib_version"
_OF_ONE_RANK: Final = "cache_data"
_RANK: Final = re.compile(r"rank_([0-9]{1,9})")
_RANK_IN_NAME: Final = re.compile(r"(.*)\.rank([0-9]{1,9})\.json", re.DOTALL)
_KEY_PARTS: Final = 4
_CAPABILITY_PARTS: Final = 2


class TrtllmCache(Format):
    """`autotune(cache_path=...)`: one file of all ranks, or one for each."""

    name = "trtllm"
    title = "TensorRT-LLM's autotuner caches, of all ranks or of one"

    def recognizes(self, file: ToolFile) -> bool:
        """A cache, by its metadata and the names of its sections."""
        document = file.document
        if not isinstance(document, dict) or _METADATA not in document:
            return False
        metadata = document[_METADATA]
        has_sections = _OF_ONE_RANK in document or any(map(_RANK.fullmatch, document))
        return has_sections or (isinstance(metadata, dict) and {_VERSION, "device_capability"} <= metadata.keys())

    def group(self, files: Sequence[ToolFile]) -> Iterable[Sequence[ToolFile]]:
        """The older files of the ranks of a job; any other file alone."""
        units: dict[Place, list[ToolFile]] = {}
        for file in files:
            match = _RANK_IN_NAME.fullmatch(file.path.name)
            units.setdefault(file.path.with_name(f"{match[1]}.ranks") if match else file.path, []).append(file)
        return units.values()

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording for each rank."""
        sections: list[tuple[ToolFile, int | None, list[Chosen]]] = []
        for file in files:
            document = _object(file, file.json(), "a cache")
            _object(file, document.get(_METADATA), "an object", _METADATA)
            for name, entries in document.items():
                if name != _METADATA:
                    rank = _rank_of(file, name)
                    choices = _object(file, entries, "an object of choices", name)
                    sections.append((file, rank, [_chosen(file, name, *item) for item in choices.items()]))
        slots = Slots(chosen for *_, chosen in sections)
        for file, rank, chosen in sections:
            try:
                tactics = slots.arrange(chosen)
            except FormatError as fault:
                raise file.fault(fault.what, fault.path) from fault
            facts = _facts(file, file.json()[_METADATA], rank)
            recording = choices_of(file, choices=tactics.choices, timings=tactics.timings, **facts)
            yield with_unknown_candidates(recording)


def _rank_of(file: ToolFile, section: str) -> int | None:
    """The rank of a section; None if neither it nor the file's name states one."""
    in_section, in_name = _RANK.fullmatch(section), _RANK_IN_NAME.fullmatch(file.path.name)
    if in_section is not None:
        return int(in_section[1])
    if section != _OF_ONE_RANK:
        raise file.fault(f"expected {_METADATA}, {_OF_ONE_RANK} or rank_N", (section,))
    return int(in_name[2]) if in_name else None


def _chosen(file: ToolFile, section: str, key: str, entry: Any) -> Chosen:
    try:
        parts = items_of(check_text(key))
        if len(parts) != _KEY_PARTS:
            raise FormatError(f"the cache key has {len(parts)} parts; expected op, runner, ID and shapes")
        op, runner = string_of(parts[0]), string_of(parts[1])
        if not op or not runner:
            raise FormatError("the op or the runner has no name")
        items_of(parts[3])
        if not isinstance(entry, dict):
            raise FormatError(f"expected an object with tactic and min_time, found {describe(entry)}")
        return Chosen(
            kernel=f"{MODULE}.{op}",
            runner=runner,
            profile=parts[3],
            extras=string_of(parts[2]) if parts[2][0] in "'\"" else parts[2],
            tactic=_tactic(entry.get("tactic")),
            time_ms=read_time(entry.get("min_time"), "min_time"),
            path=(section, key),
            is_extras_kept=False,
        )
    except FormatError as fault:
        raise file.fault(fault.what, (section, key, *fault.path)) from fault


def _tactic(value: Any) -> Any:
    """A tactic; newer files have the text of a Python value."""
    if not isinstance(value, str):
        return read_tactic(value)
    try:
        return read_tactic(value_of(value))
    except FormatError as fault:
        raise FormatError(fault.what, ("tactic",)) from fault


def _facts(file: ToolFile, metadata: Mapping[str, Any], rank: int | None) -> dict[str, Any]:
    """What the metadata states about a recording."""
    try:
        stated = {
            name: None if metadata.get(name) is None else check_text(metadata[name], (_METADATA, name))
            for name in (_VERSION, "device_name")
        }
        version, device = stated[_VERSION], stated["device_name"]
        header = Header(
            rank=rank,
            device_name=device or None,
            packages={PACKAGE: version} if version else {},
            modules={MODULE: PACKAGE},
        )
    except RecordingError:
        raise
    except FormatError as fault:
        raise file.fault(fault.what, fault.path) from fault
    return {
        "origin": Origin(tool=TrtllmCache.name, project=PACKAGE, version=version or "", file=file.path.name),
        "header": header,
        "arch": _arch(file, metadata.get("device_capability")) or arch_of_device(device or ""),
        "device": underscored(device or ""),
    }


def _arch(file: ToolFile, capability: Any) -> str | None:
    if capability is None:
        return None
    if not isinstance(capability, list) or [type(part) for part in capability] != [int] * _CAPABILITY_PARTS:
        raise file.fault(f"expected [major, minor], found {describe(capability)}", (_METADATA, "device_capability"))
    return normal_arch(f"{capability[0]}.{capability[1]}")


def _object(file: ToolFile, value: Any, expected: str, *path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise file.fault(f"expected {expected}, found {describe(value)}", path)
    return value
