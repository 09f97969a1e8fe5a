"""Results of triton-dejavu: a `cache.json` for each kernel below `TRITON_DEJAVU_STORAGE`.

`dejavu_0.7/triton_3.3.0/cuda_12.4/gpu_NVIDIA_H100_80GB_HBM3/FUNCTION/.../cache.json` holds `{"signature":
"JITFunction(module:function)", "keys": ["dstate"], "cache": {"('128', 'torch.bfloat16')": "BLOCK_M: 8, num_warps:
2, num_ctas: 1, num_stages: 6, maxnreg: None"}, "timings": {KEY: [0.0033]}, "timings_data": {"labels": ["ms"]}}`.
Every value of a key is text: those of `keys` by position, then dtypes. Source: `triton_dejavu/dejavu_storage.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.plugin import Format, ToolFile, choices_of
from tuning_registry.formats.stores import Place
from tuning_registry.formats.tools.reprs import items_of, string_of, value_of
from tuning_registry.formats.tools.tactics import underscored
from tuning_registry.formats.tools.winners import read_time, winner_alone, with_unknown_candidates
from tuning_registry.model.canonical import config_text
from tuning_registry.model.devices import arch_of_device
from tuning_registry.model.names import check_text
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Hardware, Header, Recording, Timing

_SIGNATURE: Final = re.compile(r"JITFunction\(([\w.]+):([\w.<>]+)\)")
_STORAGE: Final = re.compile(r"dejavu_[0-9.]+")
_FACTS: Final = {"triton": "triton_", "cuda": "cuda_", "gpu": "gpu_"}  # folders below the storage, in this order
_OPTIONS: Final = frozenset(
    {"num_warps", "num_ctas", "num_stages", "maxnreg", "num_buffers_warp_spec", "num_consumer_groups",
     "reg_dec_producer", "reg_inc_consumer"}
)  # fmt: skip
_DTYPE: Final = re.compile(r"[\w.]+")
_SPECIAL: Final = re.compile(r"[\\|=]")
_MEDIAN: Final = "ms"


class DejavuStorage(Format):
    """`TRITON_DEJAVU_STORAGE`."""

    name = "dejavu"
    title = "triton-dejavu's storage (TRITON_DEJAVU_STORAGE)"

    def recognizes(self, file: ToolFile) -> bool:
        """A kernel's `cache.json`, by the fields that only these have."""
        document = file.document
        return isinstance(document, dict) and {"signature", "keys", "cache"} <= document.keys()

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording for each file. Its place states the versions and the device; no rank is stated."""
        for file in files:
            place, facts = _place_of(file.path)
            try:
                kernel, choices, timings = _read_kernel(file.json())
            except FormatError as fault:
                if hasattr(fault, "file"):
                    raise
                raise file.fault(fault.what, fault.path) from fault
            device = facts.get("gpu", "")
            header = Header(
                triton=facts.get("triton"),
                device_name=device or None,
                hardware=Hardware(cuda=facts.get("cuda")),
            )
            recording = choices_of(
                file,
                Origin(tool=self.name, file=place or kernel),
                {kernel: choices},
                header=header,
                arch=arch_of_device(device),
                device=underscored(device),
                timings={kernel: timings} if timings else {},
            )
            yield with_unknown_candidates(recording)


def _place_of(path: Place) -> tuple[str, dict[str, str]]:
    """The place of a file below the storage, and the facts that its folders state; empty if it is not in a storage."""
    parts = path.resolve().parts
    start = next((index for index, part in enumerate(parts) if _STORAGE.fullmatch(part)), None)
    if start is None:
        return "", {}
    folders = dict(zip(_FACTS, parts[start + 1 :], strict=False))
    facts = {
        fact: folders[fact].removeprefix(prefix)
        for fact, prefix in _FACTS.items()
        if folders.get(fact, "").startswith(prefix) and folders[fact] != prefix
    }
    return "/".join(parts[start + 1 :]), facts


def _read_kernel(document: Any) -> tuple[str, dict[str, str], dict[str, Sequence[Timing]]]:
    """Name of a kernel, its chosen configs and the winners' times, by key."""
    if not isinstance(document, dict):
        raise FormatError(f"expected an object with signature, keys and cache, found {describe(document)}")
    signature = _SIGNATURE.fullmatch(check_text(document.get("signature"), ("signature",)))
    if signature is None:
        raise FormatError(
            f"expected JITFunction(module:function), found {describe(document['signature'])}", ("signature",)
        )
    names = document.get("keys")
    if not isinstance(names, list) or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise FormatError(f"expected an array of parameter names, found {describe(names)}", ("keys",))
    times = _times_of(document)
    choices: dict[str, str] = {}
    timings: dict[str, Sequence[Timing]] = {}
    for stated, config in _object(document.get("cache"), "cache").items():
        try:
            key, text = _key(names, stated), _config(config)
            if key in choices:
                raise FormatError("another entry has the same key")
        except FormatError as fault:
            raise fault.under("cache", stated) from fault
        choices[key] = text
        time = times.get(stated)
        if time is not None:
            timings[key] = winner_alone(text, time)
    return ".".join(signature.groups()), choices, timings


def _times_of(document: Mapping[str, Any]) -> dict[str, float | None]:
    """The winners' times by the text of the key."""
    if document.get("timings") is None or document.get("timings_data") is None:
        return {}
    labels = _object(document["timings_data"], "timings_data").get("labels")
    if not isinstance(labels, list):
        raise FormatError(f"expected an array, found {describe(labels)}", ("timings_data", "labels"))
    if _MEDIAN not in labels:
        return {}
    found: dict[str, float | None] = {}
    for key, values in _object(document["timings"], "timings").items():
        if not isinstance(values, list) or len(values) != len(labels):
            raise FormatError(f"expected an array of {len(labels)} times, found {describe(values)}", ("timings", key))
        found[key] = read_time(values[labels.index(_MEDIAN)], "timings", key)
    return found


def _key(names: Sequence[str], stated: str) -> str:
    """The shape key of `('128', 'True', 'torch.bfloat16')`. A value has the text that `str` gave it."""
    values = [string_of(item) for item in items_of(check_text(stated))]
    if len(values) < len(names):
        raise FormatError(f"{len(values)} values for {len(names)} names")
    dtypes = values[len(names) :]
    for dtype in dtypes:
        if not _DTYPE.fullmatch(dtype):
            raise FormatError(f"expected a dtype after the values, found {describe(dtype)}")
    named = zip(names, values, strict=False)
    return "|".join([*(name + "=" + _SPECIAL.sub(r"\\\g<0>", value) for name, value in named), *dtypes])


def _config(text: Any) -> str:
    """The canonical text of `BLOCK_M: 32, PRE_LOAD_V: False, num_warps: 4, ...`."""
    kwargs: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for part in check_text(text).split(", "):
        name, colon, value = part.partition(": ")
        if not colon or not name.isidentifier():
            raise FormatError(f"expected `name: value, ...`, found {describe(part)}")
        fields = options if name in _OPTIONS else kwargs
        if name in fields:
            raise FormatError(f"the parameter {name!r} appears twice")
        fields[name] = _value(value)
    return config_text({"kwargs": kwargs, **options})


def _value(text: str) -> Any:
    """A number, boolean or None as `str` wrote it; any other text is a string."""
    try:
        return value_of(text)
    except FormatError:
        return text


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected an object, found {describe(value)}", (name,))
    return value
