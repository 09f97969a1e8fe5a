"""Caches of FlashInfer's autotuner, v1 and v2, and those that SGLang and vLLM write for each rank.

A v1 file is `{"_metadata": {"flashinfer_version": "0.7.4", "gpu": "NVIDIA B200"}, CACHE KEY: [runner, tactic, policy,
{"time_ms": 0.0023}]}`; policy and times are optional. v2 is a folder with `manifest.json`, the environment, and
`entries/*.json`, `{"key": CACHE KEY, "runner": ..., "tactic": ...}`. SGLang's `rank_tp0_pp0_dp0.json` and vLLM's
`autotune_configs_dp0_rank0.json` are v1 files, one for each rank.
Source: `flashinfer/autotuner.py` of 0.6.9 and 0.7.4; sglang 0.5.23, `flashinfer_autotune.py`; vllm 0.33.0.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.plugin import Format, Outgoing, ToolFile, Written, choices_of
from tuning_registry.formats.stores import Place
from tuning_registry.formats.tools.flashinfer_writer import METADATA, VERSION, environment_part, write_cache
from tuning_registry.formats.tools.reprs import items_of, string_of
from tuning_registry.formats.tools.tactics import Chosen, Slots, Tactics, read_tactic, underscored
from tuning_registry.formats.tools.winners import read_time, with_unknown_candidates
from tuning_registry.model.devices import UNKNOWN_ARCH, arch_of_device
from tuning_registry.model.names import check_text, normal_arch
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Hardware, Header, Recording

PACKAGE: Final = "flashinfer-python"
MODULE: Final = "flashinfer"
_SCHEMA: Final = "cache_schema"
_ENTRIES: Final = "entries"
_ENTRY: Final = frozenset({"key", "runner", "tactic"})
_UNSTATED: Final = frozenset({"", "*", "unknown"})  # a wildcard, and what FlashInfer writes for what it cannot find
_KEY_PARTS: Final = (3, 4)  # without and with extras
_VALUE_PARTS: Final = range(2, 5)
_SGLANG: Final = re.compile(
    r"rank_tp(?P<tp>[0-9]{1,6})_pp(?P<pp>[0-9]{1,6})_dp(?P<dp>[0-9]{1,6})(_gpu(?P<gpu>[^.]+))?(\.[^/]+)?\.json"
)
_VLLM: Final = re.compile(r"autotune_configs_dp(?P<dp>[0-9]{1,6})_rank(?P<tp>[0-9]{1,6})\.json")
_ARCH_FOLDER: Final = re.compile(r"sm_?[0-9]{2,4}[a-z]?|[0-9]{2,3}[a-z]?")


@dataclass(frozen=True, slots=True)
class RankName:
    """The place of a rank in its job, as the name of its file states it; vLLM's `rank` is `tp`."""

    dp: int
    pp: int
    tp: int
    device_uuid: str | None


class FlashInferCache(Format):
    """`FLASHINFER_AUTOTUNE_CACHE_DIR`, and the caches of SGLang's and vLLM's ranks."""

    name = "flashinfer"
    title = "FlashInfer's autotuner caches, v1 and v2, also those of SGLang's and vLLM's ranks"

    def recognizes(self, file: ToolFile) -> bool:
        """A v1 cache, or a manifest or an entry of a v2 cache, by fields that only these have."""
        document = file.document
        if not isinstance(document, dict):
            return False
        metadata = document.get(METADATA)
        is_v1 = METADATA in document and any(name.startswith("(") for name in document)
        return is_v1 or (isinstance(metadata, dict) and VERSION in metadata) or _is_of_v2(document)

    def group(self, files: Sequence[ToolFile]) -> Iterable[Sequence[ToolFile]]:
        """The caches of the ranks in a folder, the files of a v2 environment, and any other file alone."""
        units: dict[Place, list[ToolFile]] = {}
        for file in files:
            if rank_of(file.path) is not None:
                place = file.path.parent / "ranks"
            elif isinstance(file.document, dict) and _is_of_v2(file.document):
                place = _environment_of(file)
            else:
                place = file.path
            units.setdefault(place, []).append(file)
        return units.values()

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording for each v1 file, which votes if its name states a rank; one for a v2 environment."""
        if all(isinstance(file.document, dict) and _is_of_v2(file.document) for file in files):
            yield _read_v2(files)
            return
        ranks = numbers_of(files)
        caches = [_guarded(file, _read_v1, file) for file in files]
        slots = Slots(caches)
        for file, cache in zip(files, caches, strict=True):
            tactics = _guarded(file, slots.arrange, cache)
            document = file.json()
            extra = environment_part(document[METADATA], _policies(document))
            yield _recording(file, document[METADATA], tactics, file.path.name, ranks.get(file.path), extra)

    def write(self, chosen: Outgoing) -> Written:
        """One v1 file for all ranks.

        Raises:
            SelectionError: The entries are for several devices or versions, or their ranks had different libraries.
        """
        return write_cache(chosen, MODULE)


def rank_of(path: Place) -> RankName | None:
    """The rank that the name of a v1 file states."""
    match = _SGLANG.fullmatch(path.name) or _VLLM.fullmatch(path.name)
    if match is None:
        return None
    parts = match.groupdict()
    return RankName(int(parts["dp"]), int(parts.get("pp") or 0), int(parts["tp"]), parts.get("gpu"))


# See docs/decisions.md, D145.
def numbers_of(files: Sequence[ToolFile]) -> dict[Place, int]:
    """The number of each rank in the job whose caches these are.

    It is `pp * tp_size + tp`, as in SGLang, if no two files share it. Otherwise every data-parallel replica is a job
    whose ranks follow those of the replica before it.

    Raises:
        RecordingError: Two files are of one rank.
    """
    names = {file.path: name for file in files if (name := rank_of(file.path)) is not None}
    tensor_size = 1 + max((name.tp for name in names.values()), default=0)
    pipeline_size = 1 + max((name.pp for name in names.values()), default=0)
    numbers = {path: name.pp * tensor_size + name.tp for path, name in names.items()}
    if len(set(numbers.values())) != len(numbers):
        numbers = {path: n + names[path].dp * pipeline_size * tensor_size for path, n in numbers.items()}
    owners: dict[int, Place] = {}
    for file in files:
        if file.path in numbers:
            other = owners.setdefault(numbers[file.path], file.path)
            if other != file.path:
                raise file.fault(f"{other.name} has the same rank; ingest the caches of one run at a time")
    return numbers


def _read_v1(file: ToolFile) -> list[Chosen]:
    document = file.json()
    if not isinstance(document, dict):
        raise FormatError(f"expected an object of choices, found {describe(document)}")
    if not isinstance(document.get(METADATA), dict):
        raise FormatError(f"expected an object, found {describe(document.get(METADATA))}", (METADATA,))
    return [_choice(name, value) for name, value in document.items() if not name.startswith("_")]


def _policies(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Op and measurement policy of each entry of a v1 file that states one."""
    for key, value in document.items():
        if not key.startswith("_") and len(value) > _VALUE_PARTS[0] and isinstance(value[2], list):
            yield string_of(items_of(key)[0]), value[2]


def _choice(key: str, value: Any) -> Chosen:
    """One entry of a v1 file."""
    try:
        if not isinstance(value, list) or len(value) not in _VALUE_PARTS:
            raise FormatError(f"expected [runner, tactic] with an optional policy and times, found {describe(value)}")
        times = value[3] if len(value) == _VALUE_PARTS[-1] else None
        if times is not None and not isinstance(times, dict):
            raise FormatError(f"expected an object of times, found {describe(times)}")
        time = read_time((times or {}).get("time_ms"), "time_ms")
        return _chosen(key, value[0], value[1], time, (key,))
    except FormatError as fault:
        raise fault if fault.path[:1] == (key,) else fault.under(key) from fault


def _chosen(key: str, runner: Any, tactic: Any, time_ms: float | None, path: tuple[str, ...]) -> Chosen:
    """The choice under a cache key, `('op', 'Runner', (shapes), (extras))`."""
    parts = items_of(check_text(key))
    if len(parts) not in _KEY_PARTS:
        raise FormatError(f"the cache key has {len(parts)} parts; expected op, runner, shapes and optional extras")
    op, keyed = string_of(parts[0]), string_of(parts[1])
    if not op or not keyed:
        raise FormatError("the op or the runner has no name")
    if check_text(runner, ("runner",)) != keyed:
        raise FormatError(f"the runner is {describe(runner)}, but the key is for {keyed!r}")
    items_of(parts[2])
    extras = parts[3] if len(parts) == _KEY_PARTS[-1] else None
    return Chosen(
        kernel=f"{MODULE}.{op}",
        runner=keyed,
        profile=parts[2],
        extras=extras,
        tactic=read_tactic(tactic),
        time_ms=time_ms,
        path=path,
    )


def _read_v2(files: Sequence[ToolFile]) -> Recording:
    manifest: Mapping[str, Any] = {}
    chosen: list[Chosen] = []
    for file in files:
        document = file.json()
        if _SCHEMA in document:
            manifest = document
            continue
        key = document["key"]
        if not isinstance(key, str):
            raise file.fault(f"expected the text of a cache key, found {describe(key)}", ("key",))
        if file.path.stem != hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[: len(file.path.stem)]:
            raise file.fault("the file's name is not that of its key, so FlashInfer does not use it", ("key",))
        chosen.append(_guarded(file, _chosen, key, document["runner"], document["tactic"], None, ()))
    place = _environment_of(files[0])
    tactics = _guarded(files[0], Slots([chosen]).arrange, chosen)
    return _recording(files[0], manifest, tactics, place.resolve().name)


def _recording(
    file: ToolFile,
    metadata: Mapping[str, Any],
    tactics: Tactics,
    source: str,
    rank: int | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Recording:
    """The recording of a cache with the facts that its metadata and its place state."""
    stated = {name: _text(file, metadata.get(name), name) for name in ("gpu", VERSION, "cuda_version")}
    gpu, version = stated.get("gpu"), stated.get(VERSION)
    name = rank_of(file.path)
    arch = arch_of_device(gpu or "")
    folder = file.path.resolve().parent.parent.name
    if arch == UNKNOWN_ARCH and name is not None and _ARCH_FOLDER.fullmatch(folder):
        arch = normal_arch(folder)
    header = Header(
        rank=rank,
        device_name=gpu,
        device_uuid=None if name is None else name.device_uuid,
        packages={PACKAGE: version} if version else {},
        modules={MODULE: PACKAGE},
        hardware=Hardware(cuda=stated.get("cuda_version")),
        extra=extra or {},
    )
    origin = Origin(tool=FlashInferCache.name, project=PACKAGE, version=version or "", file=source)
    recording = choices_of(
        file, origin, tactics.choices, header=header, arch=arch, device=underscored(gpu or ""), timings=tactics.timings
    )
    return with_unknown_candidates(recording)


def _is_of_v2(document: Mapping[str, Any]) -> bool:
    return {_SCHEMA, VERSION} <= document.keys() or document.keys() >= _ENTRY


def _environment_of(file: ToolFile) -> Place:
    folder = file.path.parent
    return folder.parent if folder.name == _ENTRIES else folder


def _text(file: ToolFile, value: Any, name: str) -> str | None:
    """A fact of the environment; None if it is not stated."""
    if value is None:
        return None
    return None if _guarded(file, check_text, value, (METADATA, name)) in _UNSTATED else str(value)


def _guarded(file: ToolFile, call: Any, *values: Any) -> Any:
    """What `call` returns; its `FormatError` becomes one about this file."""
    try:
        return call(*values)
    except FormatError as fault:
        if hasattr(fault, "file"):
            raise
        raise file.fault(fault.what, fault.path) from fault
