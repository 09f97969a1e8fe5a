"""Configs of Helion: its local cache, `HASH.best_config`, and the tables of vLLM's Helion kernels.

A `.best_config` holds `{"config": JSON as text, "key": {"type": "LooseAutotuneCacheKey", "fields": {...}}}`; every field
is text. A table, `silu_and_mul_per_block_quant/nvidia_h100.json`, holds `[{"key": {"num_tokens": 1}, "config": {...}}]`.
Sources: `helion/autotuner/local_cache.py`, `vllm/kernels/helion/config_manager.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.files import parse_json
from tuning_registry.formats.plugin import Format, ToolFile, choices_of
from tuning_registry.formats.tools.launch_tables import project_version
from tuning_registry.formats.tools.tactics import underscored
from tuning_registry.model.devices import arch_of_device
from tuning_registry.model.kinds import helion_text
from tuning_registry.model.names import check_text, format_key
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Hardware, Header, Recording

_CACHED: Final = re.compile(r"[0-9a-f]{64}\.best_config")
_KEY_TYPE: Final = re.compile(r"\w*AutotuneCacheKey")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_SPECIAL: Final = re.compile(r"[\\|=]")
_PLATFORM: Final = re.compile(r"[a-z0-9_]+")
_KERNEL, _DEVICE, _RUNTIME = "kernel_source_hash", "hardware", "runtime_name"
# How the config was found, and fields that state nothing.
_NOT_IN_KEY: Final = frozenset({_KERNEL, _DEVICE, _RUNTIME, "best_of_k", "search_policy_hash"})
_EMPTY: Final = frozenset({"", "()"})


class HelionFiles(Format):
    """`HELION_CACHE_DIR`, and `vllm/kernels/helion/configs`."""

    name = "helion"
    title = "Helion's local cache (HASH.best_config), and the tables of vLLM's Helion kernels"
    suffixes = (".best_config", ".json")

    def has_name(self, name: str) -> bool:
        """A JSON file, or a cached config with Helion's kind of hash: Inductor's files have another."""
        return name.endswith(".json") or _CACHED.fullmatch(name) is not None

    def recognizes(self, file: ToolFile) -> bool:
        """A cached config by the type of its key, or a table of keys and Helion configs."""
        document = file.document
        if isinstance(document, list):
            return bool(document) and all(isinstance(one, dict) and one.keys() == {"key", "config"} for one in document)
        return isinstance(document, dict) and {"config", "key", "flat_config"} <= document.keys()

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording for each file; neither rank nor Triton version is stated."""
        for file in files:
            document = file.json()
            try:
                yield _read_table(file, document) if isinstance(document, list) else _read_cached(file, document)
            except FormatError as fault:
                if hasattr(fault, "file"):
                    raise
                raise file.fault(fault.what, fault.path) from fault


def _read_cached(file: ToolFile, document: Any) -> Recording:
    """The config in one file of the cache. The kernel's name is not in it, so the hash of its source names it."""
    fields = _fields(document)
    kernel = fields.get(_KERNEL, "")
    if not _HASH.fullmatch(kernel):
        raise FormatError(f"expected 64 hexadecimal digits, found {describe(kernel)}", ("key", "fields", _KERNEL))
    key = "|".join(
        name + "=" + _SPECIAL.sub(r"\\\g<0>", value)
        for name, value in fields.items()
        if name not in _NOT_IN_KEY and value not in _EMPTY
    )
    text = check_text(document.get("config"), ("config",))
    try:
        config = helion_text(parse_json(text.encode(), str(file.path)))
    except FormatError as fault:
        raise FormatError(fault.what, ("config", *fault.path)) from fault
    device = fields.get(_DEVICE, "")
    is_cuda = device.startswith("NVIDIA")
    return choices_of(
        file,
        Origin(tool=HelionFiles.name, file=file.path.name),
        {f"helion.{kernel}": {key: config}},
        header=Header(
            device_name=device or None,
            hardware=Hardware(cuda=fields.get(_RUNTIME) or None) if is_cuda else Hardware(),
        ),
        arch=arch_of_device(device),
        device=underscored(device),
    )


def _fields(document: Any) -> dict[str, str]:
    """The fields of the key of a cached config."""
    key = document.get("key") if isinstance(document, dict) else None
    if not isinstance(key, dict):
        raise FormatError(f"expected an object with config and key, found {describe(key)}", ("key",))
    kind, fields = key.get("type"), key.get("fields")
    if not isinstance(kind, str) or not _KEY_TYPE.fullmatch(kind):
        raise FormatError(f"expected a type such as LooseAutotuneCacheKey, found {describe(kind)}", ("key", "type"))
    if not isinstance(fields, dict):
        raise FormatError(f"expected an object, found {describe(fields)}", ("key", "fields"))
    for name, value in fields.items():
        if not name.isidentifier():
            raise FormatError(f"expected a name, found {describe(name)}", ("key", "fields"))
        check_text(value, ("key", "fields", name))
    return fields


def _read_table(file: ToolFile, document: Sequence[Any]) -> Recording:
    """The configs of one kernel of vLLM on one platform. An empty key is the default, `*`."""
    place = file.path.resolve()
    platform = place.stem
    if not _PLATFORM.fullmatch(platform):
        raise FormatError("not the name of a platform; expected one such as nvidia_h100.json")
    entries: dict[str, str] = {}
    for index, one in enumerate(document):
        try:
            key = _table_key(one)
            if key in entries:
                raise FormatError("another entry has the same key")
            entries[key] = helion_text(one.get("config"))
        except FormatError as fault:
            raise fault.under(str(index)) from fault
    kernel = place.parent.name
    is_vllm = "vllm" in place.parts
    return choices_of(
        file,
        Origin(
            tool=HelionFiles.name,
            project="vllm" if is_vllm else "",
            version=project_version(place.parent, "vllm") or "",
            file=f"{kernel}/{file.path.name}",
        ),
        {kernel: entries},
        arch=arch_of_device(platform),
        device=platform,
    )


def _table_key(one: Any) -> str:
    stated = one.get("key") if isinstance(one, dict) else None
    if not isinstance(stated, Mapping):
        raise FormatError(f"expected an object, found {describe(stated)}", ("key",))
    for name, value in stated.items():
        if not name.isidentifier():
            raise FormatError(f"expected a name, found {describe(name)}", ("key",))
        if not isinstance(value, int | float | str | None):
            raise FormatError(f"expected a number or a string, found {describe(value)}", ("key", name))
    # vLLM compares keys as sorted JSON; tables state the names in one order.
    return check_text(format_key(sorted(stated.items()), ()), ("key",)) or "*"
