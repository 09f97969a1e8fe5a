"""Tuned launch parameters of vLLM: fused MoE, block-scaled FP8 GEMM, and the state update of Mamba."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tuning_registry.formats.plugin import Format, Outgoing, ToolFile, Written
from tuning_registry.formats.tools.launch_tables import (
    BLOCK_GEMM,
    MOE,
    SSU,
    TableName,
    is_table,
    origin_of,
    parse_name,
    read_table,
)
from tuning_registry.formats.tools.launch_writer import Layout, write_tables
from tuning_registry.formats.tools.sglang import is_of_sglang
from tuning_registry.formats.tools.tactics import underscored
from tuning_registry.model.records import Recording

_FAMILIES: Final = (MOE, BLOCK_GEMM, SSU)


def _moe_device(device: str) -> str:
    """A device as vLLM spells it for fused MoE, with one name for every H200."""
    name = underscored(device)
    return "NVIDIA_H200" if "H200" in name.split("_") else name


_LAYOUTS: Final = (
    Layout(
        family=MOE,
        parts=("dtype", "block_shape"),
        states_version=True,
        device=_moe_device,
        foreign=frozenset({"USE_TMA", "SWAP_AB"}),
    ),
    Layout(
        family=MOE,
        parts=("dtype", "backend"),
        required=frozenset({"dtype", "backend"}),
        folder="fused_moe/configs",
        note="copy fused_moe/ into vllm/model_executor/layers/: vLLM reads files with a backend only there",
    ),
    Layout(
        family=BLOCK_GEMM,
        parts=("dtype", "block_shape"),
        required=frozenset({"dtype", "block_shape"}),
        folder="quantization/utils/configs",
        foreign=frozenset({"SWAP_AB", "SPLIT_K"}),
        note="copy quantization/ into vllm/model_executor/layers/: vLLM reads block FP8 GEMM files only there",
    ),
    Layout(family=SSU, parts=("cache_dtype",), required=frozenset({"cache_dtype"}), states_version=True),
)


class VllmTables(Format):
    """`VLLM_TUNED_CONFIG_FOLDER`, and the files that vLLM ships."""

    name = "vllm"
    title = "vLLM's tuned launch configs: fused MoE, block FP8 GEMM, selective state update"

    def recognizes(self, file: ToolFile) -> bool:
        """A table by its name and content that does not look like SGLang's."""
        name = _name(file)
        return name is not None and not name.is_down and not is_of_sglang(file.path) and is_table(file.document)

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording per file: the Triton version is in some files."""
        for file in files:
            name = _name(file)
            if name is None:
                raise file.fault(
                    "not the file name of a vLLM config; expected one such as E=8,N=64,device_name=GPU.json"
                )
            yield read_table(file, name, origin_of(file, self.name))

    def write(self, chosen: Outgoing) -> Written:
        """A folder for `VLLM_TUNED_CONFIG_FOLDER`; files that vLLM reads only from its package are in subfolders.

        Raises:
            SelectionError: The entries of a file are for several versions or devices.
        """
        return write_tables(chosen, _LAYOUTS)


def _name(file: ToolFile) -> TableName | None:
    return parse_name(file.path.name, _FAMILIES)
