"""Tuned launch parameters of SGLang: fused MoE per Triton version, and FP8 GEMM."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tuning_registry.formats.plugin import Format, Outgoing, ToolFile, Written
from tuning_registry.formats.stores import Place
from tuning_registry.formats.tools.launch_tables import (
    BLOCK_GEMM,
    MOE,
    VERSION_KEY,
    TableName,
    is_table,
    origin_of,
    parse_name,
    read_table,
)
from tuning_registry.formats.tools.launch_writer import Layout, write_tables
from tuning_registry.model.records import Recording

_FAMILIES: Final = (MOE, BLOCK_GEMM)
_VERSION_FOLDER: Final = re.compile(r"triton_(\d+)_(\d+)_(\d+)")
_OF_SGLANG: Final = re.compile(r"block_shape=\[\d+, \d+\]|_down\.json$|per_channel_quant=True|_channelwise")
_LAYOUTS: Final = (
    Layout(
        family=MOE,
        parts=("dtype", "block_shape", "per_channel_quant", "down"),
        folder="configs/triton_{triton}",
        comma=", ",
        foreign=frozenset({"SPLIT_K", "SWAP_AB", "grf_mode"}),
    ),
    Layout(
        family=BLOCK_GEMM,
        parts=("dtype", "block_shape"),
        required=frozenset({"dtype", "block_shape"}),
        folder="kernels/ops/gemm/configs",
        comma=", ",
        note="copy kernels/ into the package sglang: SGLang reads GEMM files only there",
    ),
)


class SglangTables(Format):
    """`SGLANG_MOE_CONFIG_DIR`, and the files that SGLang ships."""

    name = "sglang"
    title = "SGLang's tuned launch configs: fused MoE for each Triton version, FP8 GEMM"

    def recognizes(self, file: ToolFile) -> bool:
        """A table by its name and content, in a place or under a name that only SGLang uses."""
        return (
            _name(file) is not None
            and is_of_sglang(file.path)
            and is_table(file.document)
            and VERSION_KEY not in file.document
        )

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording per file: the folder states the Triton version."""
        for file in files:
            name = _name(file)
            if name is None:
                raise file.fault(
                    "not the file name of an SGLang config; expected one such as E=8,N=64,device_name=GPU.json"
                )
            folder = _VERSION_FOLDER.fullmatch(file.path.parent.name)
            yield read_table(file, name, origin_of(file, self.name), ".".join(folder.groups()) if folder else None)

    def write(self, chosen: Outgoing) -> Written:
        """A folder for `SGLANG_MOE_CONFIG_DIR`, and a subfolder for GEMM, which SGLang reads only from its package.

        Raises:
            SelectionError: The entries of a file are for several versions or devices.
        """
        return write_tables(chosen, _LAYOUTS)


def is_of_sglang(path: Place) -> bool:
    """Whether the place or the name of a table is one that SGLang uses and vLLM does not."""
    project = next((part for part in reversed(path.resolve().parts) if part in {"vllm", "sglang"}), None)
    if project is not None:
        return project == "sglang"
    return bool(_VERSION_FOLDER.fullmatch(path.parent.name) or _OF_SGLANG.search(path.name))


def _name(file: ToolFile) -> TableName | None:
    return parse_name(file.path.name, _FAMILIES)
