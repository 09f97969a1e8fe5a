"""Tuned launch parameters of vLLM: fused MoE, block-scaled FP8 GEMM, and the state update of Mamba."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuning_registry.formats.plugin import Format, ToolFile
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
from tuning_registry.formats.tools.sglang import is_of_sglang
from tuning_registry.model.records import Recording

_FAMILIES = (MOE, BLOCK_GEMM, SSU)


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


def _name(file: ToolFile) -> TableName | None:
    return parse_name(file.path.name, _FAMILIES)
