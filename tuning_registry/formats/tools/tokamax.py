"""Autotuning data of tokamax, a library of JAX kernels: `{device}/{op}.json`.

A file holds `{ARGUMENTS: {CONFIG: {"evaluation_times_ms": [0.0086, ...], ...}}}`. Both keys are JSON in a string:
`{"x": "bf16[384,384,64]", "axis": -1}` and `{"block_m": 32, "num_warps": 4}`. Most arguments have one config, the
winner of a search; some have several or none. Source: `tokamax/_src/autotuning/cache.py`.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.files import parse_json
from tuning_registry.formats.plugin import Format, ToolFile, choices_of
from tuning_registry.formats.tools.winners import read_time, with_unknown_candidates
from tuning_registry.model.canonical import check_value, dump_json
from tuning_registry.model.devices import arch_of_device
from tuning_registry.model.kinds import launch_text
from tuning_registry.model.names import check_text
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Header, Recording, Timing

_PLACE: Final = re.compile(r"[a-z][a-z0-9_]*")
_TIMES: Final = "evaluation_times_ms"
_SPECIAL: Final = re.compile(r"[\\|=]")


class TokamaxCache(Format):
    """`tokamax/data/autotuning`, and files that `tokamax.autotune` made."""

    name = "tokamax"
    title = "tokamax's autotuning data ({device}/{op}.json)"

    def recognizes(self, file: ToolFile) -> bool:
        """An object whose names are JSON objects in a string, with measured configs by JSON in a string."""
        document = file.document
        if not isinstance(document, dict) or not document:
            return False
        return all(name[:1] == "{" and isinstance(configs, dict) for name, configs in document.items())

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording for each file. The folder states the device; neither rank nor version is stated."""
        for file in files:
            device, op = file.path.resolve().parent.name, file.path.stem
            if not _PLACE.fullmatch(device) or not _PLACE.fullmatch(op):
                raise file.fault("not the place of tokamax's data; expected {device}/{op}.json, in lower case")
            arch = arch_of_device(device)
            choices, timings = _read_op(file)
            recording = choices_of(
                file,
                Origin(tool=self.name, file=f"{device}/{file.path.name}"),
                {f"tokamax.{op}": choices},
                header=Header(device_name=device),
                arch=arch,
                device=device,
                timings={f"tokamax.{op}": timings} if timings else {},
            )
            yield with_unknown_candidates(recording)


def _read_op(file: ToolFile) -> tuple[dict[str, str], dict[str, Sequence[Timing]]]:
    """The fastest config and the times of all configs, by key."""
    document = file.json()
    if not isinstance(document, dict):
        raise file.fault(f"expected an object of configs by arguments, found {describe(document)}")
    choices: dict[str, str] = {}
    timings: dict[str, Sequence[Timing]] = {}
    seen: set[str] = set()
    for arguments, configs in document.items():
        try:
            key = _key(_object(arguments, file))
            if key in seen:
                raise FormatError("another entry has the same arguments")
            seen.add(key)
            if not isinstance(configs, dict):
                raise FormatError(f"expected an object of configs, found {describe(configs)}")
            found = [_timing(stated, measured, file) for stated, measured in configs.items() if stated != "{}"]
            if len({timing.config for timing in found}) != len(found):
                raise FormatError("another entry has the same config")
        except FormatError as fault:
            raise file.fault(fault.what, (arguments, *fault.path)) from fault
        if found:
            choices[key] = _fastest(found).config
            timings[key] = found
    return choices, timings


def _object(text: str, file: ToolFile) -> Mapping[str, Any]:
    """The object that a name spells as JSON."""
    try:
        value = parse_json(check_text(text).encode(), str(file.path))
    except FormatError as fault:
        raise FormatError(f"expected a JSON object in the name: {fault.what}") from fault
    if not isinstance(value, dict):
        raise FormatError(f"expected a JSON object in the name, found {describe(value)}")
    check_value(value, ())
    return value


def _key(arguments: Mapping[str, Any]) -> str:
    """The shape key of a call: `x=bf16[384,384,64]|axis=-1|scale_offset=0.0`."""
    fields = []
    for name, value in arguments.items():
        if not name.isidentifier():
            raise FormatError(f"expected a name, found {describe(name)}")
        text = value if isinstance(value, str) else dump_json(value) if isinstance(value, dict | list) else str(value)
        fields.append(name + "=" + _SPECIAL.sub(r"\\\g<0>", text))
    return check_text("|".join(fields))


def _timing(stated: str, measured: Any, file: ToolFile) -> Timing:
    """A config with the median and the percentiles of its repeats."""
    try:
        config = launch_text(_object(stated, file))
        times = measured.get(_TIMES) if isinstance(measured, dict) else None
        if not isinstance(times, list) or not times:
            raise FormatError(f"expected an array of milliseconds, found {describe(times)}", (_TIMES,))
        read = [read_time(time, _TIMES, str(index)) for index, time in enumerate(times)]
    except FormatError as fault:
        raise fault.under(stated) from fault
    good = sorted(time for time in read if time is not None and not math.isnan(time))
    if len(good) != len(read):
        return Timing(config, None, None, None)
    return Timing(config, statistics.median(good), _percentile(good, 0.2), _percentile(good, 0.8))


def _percentile(times: Sequence[float], part: float) -> float:
    """A percentile of sorted times, between two of them in proportion."""
    place = (len(times) - 1) * part
    low = int(place)
    high = min(low + 1, len(times) - 1)
    return times[low] + (times[high] - times[low]) * (place - low)


def _fastest(found: Sequence[Timing]) -> Timing:
    """The config with the least median, as tokamax takes it; the first one of equals."""
    return min(found, key=lambda one: float("inf") if one.median_ms is None else one.median_ms)
