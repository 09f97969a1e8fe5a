"""One cache of FlashInfer's autotuner for all ranks: a v1 file with the elected choices.

FlashInfer ignores a file whose `_metadata` differs from its environment, and tunes an op again if its entry was measured
by another policy. Neither is part of a vote, so the reader keeps both in the `extra` of the recording.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import SelectionError
from tuning_registry.formats.plugin import ElectedEntry, Outgoing, Written
from tuning_registry.formats.tools.tactics import underscored
from tuning_registry.model.kinds import Kind, fields_of, kind_of
from tuning_registry.model.names import split_key
from tuning_registry.wording import list_some

PART: Final = "flashinfer"  # of `extra`
_PART_VERSION: Final = 1
METADATA: Final = "_metadata"
VERSION: Final = "flashinfer_version"
# What FlashInfer 0.7 compares besides its version and the GPU; "*" matches any value.
_LIBRARIES: Final = ("cuda_version", "cublas_version", "cudnn_version", "cudnn_frontend_version", "cutlass_dsl_version")
_ANY: Final = "*"


def environment_part(metadata: Mapping[str, Any], policies: Iterable[tuple[str, Any]]) -> Mapping[str, Any]:
    """What a cache states beyond its choices, as a part of a recording's `extra`.

    Args:
        metadata: `_metadata` of a file.
        policies: Op and measurement policy of each entry that states one. FlashInfer has one policy per op.
    """
    found: dict[str, list[Any]] = defaultdict(list)
    for op, policy in policies:
        if policy not in found[op]:
            found[op].append(policy)
    return {
        PART: {
            "version": _PART_VERSION,
            "metadata": {name: value for name, value in metadata.items() if isinstance(value, str)},
            "policies": {op: several[0] for op, several in found.items() if len(several) == 1},
        }
    }


def write_cache(chosen: Outgoing, module: str) -> Written:
    """A v1 file with the elected choices.

    Args:
        chosen: The elected entries.
        module: The module before the name of each op.

    Raises:
        SelectionError: The entries are for several devices or versions, or their ranks had different libraries.
    """
    left_out: Counter[str] = Counter()
    entries: list[ElectedEntry] = []
    for entry in chosen.entries:
        if kind_of(entry.config) is Kind.TACTIC and entry.kernel.startswith(f"{module}."):
            entries.append(entry)
        else:
            left_out["they are not choices of FlashInfer's autotuner"] += 1
    if not entries:
        return Written(files={}, left_out=left_out)
    voted = [entry for entry in entries if entry.total_votes] or entries  # a pin without votes states no version
    for what, option, found in (
        ("devices", "--device", {entry.device or "none" for entry in voted}),
        ("FlashInfer versions", "--package flashinfer-python=VERSION", {entry.version or "none" for entry in voted}),
        ("architectures", "--arch", {entry.arch for entry in entries}),
    ):
        if len(found) > 1:
            raise SelectionError(f"the entries are for {len(found)} {what}: {list_some(sorted(found))}, but a cache is for "
                                 f"one; choose it with {option}")  # fmt: skip
    metadata, policies, notes = _environment(chosen.extras(), voted[0])
    document: dict[str, Any] = {}
    has_extras = any(_extras(entry) is not None for entry in entries)  # FlashInfer 0.6 has none
    for entry in entries:
        if has_extras and _extras(entry) is None:
            left_out["their cache keys differ between ranks"] += 1
            continue
        op = entry.kernel.removeprefix(f"{module}.")
        value = [fields_of(entry.config)[name] for name in ("runner", "tactic")]
        if op in policies:
            value.append(policies[op])
            value += [] if entry.times_ms is None else [{"time_ms": entry.times_ms[0]}]
        document[_cache_key(op, entry)] = value
    data = json.dumps({METADATA: metadata, **dict(sorted(document.items()))}, indent=2)
    return Written(files={"": data.encode()}, left_out=left_out, notes=notes)


def _environment(
    extras: Iterable[Mapping[str, Any]], entry: ElectedEntry
) -> tuple[Mapping[str, str], Mapping[str, Any], Sequence[str]]:
    """Metadata for the file, the policy of each op, and notes."""
    parts = [
        part
        for extra in extras
        if (part := extra.get(PART)) is not None
        and part.get("version") == _PART_VERSION
        and part["metadata"].get(VERSION, "") == entry.version
        and underscored(part["metadata"].get("gpu", "")) == entry.device
    ]
    for name in sorted({name for part in parts for name in part["metadata"]}):
        values = {part["metadata"].get(name, "none") for part in parts}
        if len(values) > 1:
            raise SelectionError(
                f"the ranks tuned with {len(values)} values of {name}: {list_some(sorted(values))}. FlashInfer ignores a "
                "cache that was tuned with other library versions; choose the runs of one environment with --run"
            )
    policies: dict[str, Any] = {}
    for part in parts:
        policies |= part["policies"]
    if parts:
        return parts[0]["metadata"], policies, ()
    known = {VERSION: entry.version or _ANY, "gpu": entry.device.replace("_", " ") or _ANY}
    note = (
        "no rank recorded these choices, so the versions of CUDA, cuBLAS, cuDNN and CUTLASS DSL are unknown; FlashInfer "
        "loads the cache with any versions"
    )
    return {**known, **dict.fromkeys(_LIBRARIES, _ANY)}, policies, [note]


def _key_fields(entry: ElectedEntry) -> Mapping[str, str]:
    parts = (part.partition("=") for part in split_key(entry.key))
    return {name: re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL) for name, _, value in parts}


def _extras(entry: ElectedEntry) -> str | None:
    """What the runner was made with, as the config or the shape key states it."""
    found = fields_of(entry.config).get("extras")
    return _key_fields(entry).get("extras") if found is None else str(found)


def _cache_key(op: str, entry: ElectedEntry) -> str:
    """The key that FlashInfer looks up: the text of a tuple of op, runner, profile and extras."""
    extras = _extras(entry)
    runner, profile = fields_of(entry.config)["runner"], _key_fields(entry)["profile"]
    parts = [repr(op), repr(runner), profile, *([] if extras is None else [extras])]
    return f"({', '.join(parts)})"
