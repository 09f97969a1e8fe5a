"""Tuned parameters of AITER, AMD's kernel library: JSON files of Triton kernels, and CSV files of tuned GEMMs and MoEs.

`gfx942-GEMM-A8W8_BLOCKSCALE-N=2112-K=7168.json`, or in the newer layout `gfx942/triton/gemm/FAMILY/GEMM-...json`, holds
`{"M_LEQ_8": {"BLOCK_SIZE_M": 16, ..., "num_warps": 2}, "any": {...}}`. A row of a CSV file holds what a call is looked
up by, the chosen kernel, and its time in microseconds. Sources: `aiter/ops/triton/utils/gemm_config_utils.py`,
`aiter/tuned_gemm.py`.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.plugin import Format, ToolFile, choices_of
from tuning_registry.formats.stores import Place
from tuning_registry.formats.tools.launch_tables import origin_of
from tuning_registry.formats.tools.winners import read_time, winner_alone, with_unknown_candidates
from tuning_registry.model.canonical import parse_integer
from tuning_registry.model.devices import UNKNOWN_ARCH
from tuning_registry.model.kinds import launch_text
from tuning_registry.model.names import check_text, format_key
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Recording, Timing

_TOOL: Final = "aiter"
_ARCH: Final = re.compile(r"gfx[0-9a-f]{3,5}")
_STEM: Final = re.compile(
    r"(?:(?P<arch>gfx[0-9a-f]{3,5})-)?(?P<op>[A-Z0-9_]+(?:-[A-Z0-9_]+)*)(?P<sizes>(?:-[A-Z]\w*=\w+)*)"
)
_BOUND: Final = re.compile(r"([A-Z]\w*_(?:LEQ|GEQ))_([0-9]{1,18})")
_DEFAULT: Final = "DEFAULT"
_BACKEND: Final = "triton"

_CSV: Final = ".csv"
_FAMILY: Final = re.compile(
    r"(?:^|_)((?:(?:bf16|fp16|[af][0-9]+w[0-9]+)(?:_blockscale|_bpreshuffle)*_)?tuned_(?:batched_gemm|gemm|fmoe))"
)
_INTEGER: Final = re.compile(r"-?[0-9]+")
_BOOLEANS: Final = {"True": True, "False": False}
_TIME: Final = "us"
# See docs/decisions.md, D169.
_CHOSEN: Final = frozenset(
    {"libtype", "solidx", "kernelId", "splitK", "kernelName", "block_m", "ksplit", "kernelName1", "kernelName2",
     "run_1stage"}
)  # fmt: skip
_MEASURED: Final = frozenset({_TIME, "us1", "us2", "err_ratio", "errRatio", "err1", "err2", "tflops", "bw"})
_GFX: Final = "gfx"


class AiterFiles(Format):
    """`aiter/ops/triton/configs`, and the CSV files of `aiter/configs` and of the `AITER_CONFIG_*` variables."""

    name = _TOOL
    title = "AITER's tuned configs: JSON of Triton kernels, CSV of GEMM and MoE"
    suffixes = (".json", _CSV)

    def has_name(self, name: str) -> bool:
        """A JSON file, or a CSV file with AITER's words in its name: other CSV files in a folder are not looked at."""
        return name.endswith(".json") or (name.endswith(_CSV) and _FAMILY.search(name) is not None)

    def recognizes(self, file: ToolFile) -> bool:
        """A table of configs whose name or folder states an AMD architecture, or a CSV file with AITER's columns."""
        if file.path.name.endswith(_CSV):
            columns = file.data.partition(b"\n")[0].decode("ascii", "replace").strip().split(",")
            return {_TIME, "cu_num"} <= set(columns)
        document = file.document
        is_table = isinstance(document, dict) and bool(document) and all(isinstance(v, dict) for v in document.values())
        return is_table and _place_of(file.path.resolve()) is not None

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording for each file and architecture. Neither rank nor Triton version is stated."""
        for file in files:
            try:
                yield from _read_csv(file) if file.path.name.endswith(_CSV) else [_read_json(file)]
            except FormatError as fault:
                if hasattr(fault, "file"):
                    raise
                raise file.fault(fault.what, fault.path) from fault


def _place_of(path: Place) -> tuple[str, str, list[tuple[str, object]]] | None:
    """Architecture, kernel and sizes that the name and the folders of a JSON file state; None if they state none."""
    match = _STEM.fullmatch(path.name.removesuffix(".json"))
    if match is None:
        return None
    folders = list(path.parts[:-1])
    arch, op = match["arch"], match["op"]
    fields: list[tuple[str, object]] = []
    if arch is None:
        # The newer layout: ARCH/BACKEND/gemm/FAMILY/NAME.json.
        if len(folders) < 4 or not _ARCH.fullmatch(folders[-4]):
            return None
        arch = folders[-4]
        fields += [("backend", folders[-3])] if folders[-3] != _BACKEND else []
        op = folders[-1] if op == _DEFAULT else op
    for size in match["sizes"].split("-")[1:]:
        name, _, value = size.partition("=")
        fields.append((name, _value(value)))
    return arch, op.lower().replace("-", "_"), fields


def _read_json(file: ToolFile) -> Recording:
    place = _place_of(file.path.resolve())
    if place is None:
        raise file.fault("not the place of an AITER config; expected a name such as gfx942-GEMM-A8W8-N=64-K=64.json")
    arch, kernel, sizes = place
    entries: dict[str, str] = {}
    for path, config in _configs(file.json(), ()):
        try:
            key = format_key([*sizes, _bucket(path)], ())
            entries[check_text(key)] = launch_text(config)
        except FormatError as fault:
            raise fault.under(*path) from fault
    origin = origin_of(file, _TOOL)
    name = file.path.name
    if not name.startswith(arch):
        name = "/".join(file.path.resolve().parts[-5:])
    return choices_of(
        file,
        Origin(tool=_TOOL, project=origin.project, version=origin.version, file=name),
        {kernel: entries},
        arch=arch,
    )


def _configs(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The configs in a document with the names that lead to each: attention has two levels of names."""
    if not isinstance(value, dict) or not value:
        found = "an empty object" if value == {} else describe(value)
        raise FormatError(f"expected an object of configs, found {found}", path)
    if path and not any(isinstance(inner, dict) for inner in value.values()):
        yield path, value
        return
    for name, inner in value.items():
        yield from _configs(inner, (*path, name))


def _bucket(path: tuple[str, ...]) -> tuple[str, object]:
    """The part of the key that says when a config is used: `M_LEQ=8`, or `bucket=any`."""
    bound = _BOUND.fullmatch(path[0]) if len(path) == 1 else None
    return (bound[1], int(bound[2])) if bound else ("bucket", "/".join(path))


def _read_csv(file: ToolFile) -> Iterator[Recording]:
    choices: dict[str, dict[str, str]] = defaultdict(dict)
    timings: dict[str, dict[str, Sequence[Timing]]] = defaultdict(dict)
    for place, row in _rows(file.data):
        try:
            arch, key, text = row.get(_GFX) or UNKNOWN_ARCH, _key(row), _config(row)
            if key in choices[arch]:
                raise FormatError("another row has the same key")
            choices[arch][key] = text
            time = _time(row)
        except FormatError as fault:
            raise fault.under(place) from fault
        if time is not None:
            timings[arch][key] = winner_alone(text, time)
    kernel = _kernel(file.path)
    origin = origin_of(file, _TOOL)
    for arch, entries in choices.items():
        name = file.path.name if len(choices) == 1 else f"{file.path.name}#{arch}"
        recording = choices_of(
            file,
            Origin(tool=_TOOL, project=origin.project, version=origin.version, file=name),
            {kernel: entries},
            arch=arch,
            timings={kernel: timings[arch]} if timings[arch] else {},
        )
        yield with_unknown_candidates(recording)


def _rows(data: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file by column, each with its line."""
    try:
        reader = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
        columns = [name.strip() for name in next(reader, [])]
        if not {_TIME, "cu_num"} <= set(columns) or not _CHOSEN & set(columns):
            raise FormatError("expected the columns cu_num, us, and those of the chosen kernel in the first line")
        if len(set(columns)) != len(columns):
            raise FormatError("two columns have the same name")
        for cells in reader:
            place = f"line {reader.line_num}"
            if len(cells) not in {0, len(columns)}:
                raise FormatError(f"{len(cells)} cells for {len(columns)} columns", (place,))
            if cells:
                yield (
                    place,
                    {name: check_text(cell.strip(), (place, name)) for name, cell in zip(columns, cells, strict=True)},
                )
    except UnicodeDecodeError as error:
        raise FormatError(f"byte {error.start} is not UTF-8") from error
    except csv.Error as error:
        raise FormatError(f"not CSV: {error}") from error


def _kernel(path: Place) -> str:
    """What a CSV file is for, without the model in its name: `qwen3_8b_bf16_tuned_gemm.csv` is for `bf16_tuned_gemm`."""
    stem = path.name.removesuffix(_CSV)
    match = _FAMILY.search(stem)
    return match[1] if match else stem


def _key(row: Mapping[str, str]) -> str:
    names = [name for name in row if name not in {*_CHOSEN, *_MEASURED, _GFX} and row[name]]
    for name in names:
        if not name.isidentifier():
            raise FormatError(f"expected a name, found {describe(name)}", ("columns",))
    return format_key([(name, _value(row[name])) for name in names], ())


def _config(row: Mapping[str, str]) -> str:
    return launch_text({name: _value(row[name]) for name in row if name in _CHOSEN and row[name]})


def _value(text: str) -> object:
    """A cell as an integer, a boolean, or text."""
    if _INTEGER.fullmatch(text):
        return parse_integer(text)
    return _BOOLEANS.get(text, text)


def _time(row: Mapping[str, str]) -> float | None:
    if not row[_TIME]:
        return None
    try:
        return read_time(float(row[_TIME]) / 1000, _TIME)
    except ValueError:
        raise FormatError(f"expected microseconds, found {describe(row[_TIME])}", (_TIME,)) from None
