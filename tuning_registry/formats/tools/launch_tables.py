"""Tuned launch parameters as vLLM and SGLang ship them: one JSON file per shape and device, one entry per batch size.

`E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json` holds `{"16": {"BLOCK_SIZE_M": 16, ...,
"num_warps": 4, "num_stages": 3}}`. The parts of the name and the batch size make the shape key. Some files lack
`num_stages` or `num_warps`, so configs are of the kind `launch`.
Sources: vllm 0.33.0, `fused_moe.py`, `fp8_utils.py` and `mamba_ssm.py`; sglang 0.5.23, `fused_moe_triton_config.py`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.plugin import ToolFile, choices_of
from tuning_registry.model.devices import arch_of_device
from tuning_registry.model.kinds import launch_text
from tuning_registry.model.names import check_text
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Header, Recording

VERSION_KEY: Final = "triton_version"
DOWN: Final = "_down"  # end of a name: the second matrix product of an expert
_DEVICE: Final = "device_name"
_SUFFIX: Final = ".json"
_PART: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=((?:\[[^\]]*\]|[^,\[])*)")
_MAX_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Family:
    """Files for one kernel.

    Attributes:
        kernel: What the entries are for. Both projects have a function of this name.
        parts: The first parts of a file's name.
        bucket: What the keys in a file count.
    """

    kernel: str
    parts: tuple[str, ...]
    bucket: str = "M"


MOE: Final = Family("fused_moe_kernel", ("E", "N"))
BLOCK_GEMM: Final = Family("w8a8_block_fp8_matmul", ("N", "K"))
SSU: Final = Family("selective_state_update", ("headdim", "dstate"), "effective_batch")


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a file, taken apart.

    Attributes:
        family: Which kernel it is for.
        device: As the name states it; empty if it states none.
        fields: The other parts, in order.
        is_down: Whether it is for the second matrix product.
    """

    family: Family
    device: str
    fields: Mapping[str, str]
    is_down: bool

    def key(self, bucket: str) -> str:
        """The shape key of one entry: `E=128|N=384|dtype=fp8_w8a8|M=16`."""
        fields = {**self.fields, **({"down": "True"} if self.is_down else {}), self.family.bucket: bucket}
        return "|".join(f"{name}={value}" for name, value in fields.items())


def parse_name(name: str, families: tuple[Family, ...]) -> TableName | None:
    """The parts of a file's name; None if it is not of one of these families."""
    stem = name.removesuffix(_SUFFIX)
    is_down = stem.endswith(DOWN)
    stem = stem.removesuffix(DOWN)
    parts = _PART.findall(stem)
    if stem == name or ",".join(f"{part}={value}" for part, value in parts) != stem or "|" in stem:
        return None
    fields = {part: re.sub(r"\s+", "", value) if value.startswith("[") else value for part, value in parts}
    if len(fields) != len(parts) or _DEVICE not in fields:
        return None
    device = fields.pop(_DEVICE)
    family = next((one for one in families if tuple(fields)[: len(one.parts)] == one.parts), None)
    return None if family is None else TableName(family, device, fields, is_down)


def is_table(document: object) -> bool:
    """Whether a document has the form of these files: configs by batch size."""
    if not isinstance(document, dict) or not document:
        return False
    return all(isinstance(value, dict | None) for name, value in document.items() if name != VERSION_KEY)


def read_table(file: ToolFile, name: TableName, origin: Origin, triton: str | None = None) -> Recording:
    """The choices in one file.

    Args:
        file: The file.
        name: Its name.
        origin: Whose it is.
        triton: Triton version that its place states; a version in the file must be the same.

    Raises:
        RecordingError: Names what is wrong with an entry.
    """
    document = file.json()
    if not is_table(document):
        raise file.fault(f"expected an object of configs by {name.family.bucket}, found {describe(document)}")
    entries: dict[str, str] = {}
    for bucket, config in document.items():
        if bucket == VERSION_KEY:
            triton = _version(file, config, triton)
        elif not bucket.isascii() or not bucket.isdigit() or len(bucket) > _MAX_DIGITS:
            raise file.fault(f"expected an integer of at most {_MAX_DIGITS} digits ({name.family.bucket})", (bucket,))
        elif config is not None:  # SGLang ships null for batch sizes that were not tuned
            try:
                key = name.key(str(int(bucket)))
                if key in entries:
                    raise FormatError("this batch size appears twice")
                entries[key] = launch_text(config)
            except FormatError as fault:
                raise file.fault(fault.what, (bucket, *fault.path)) from fault
    return choices_of(
        file,
        origin,
        {name.family.kernel: entries},
        header=Header(triton=triton, device_name=name.device or None),
        arch=arch_of_device(name.device),
        device=name.device,
    )


def origin_of(file: ToolFile, tool: str) -> Origin:
    """The origin of a file, with the project and version that its place states."""
    place = file.path.resolve()
    version = project_version(place.parent, tool) if isinstance(place, Path) else None
    is_stated = version is not None or tool in place.parts
    return Origin(tool=tool, project=tool if is_stated else "", version=version or "", file=file.path.name)


@functools.lru_cache(maxsize=4096)
def project_version(folder: Path, project: str) -> str | None:
    """The version of the installed or unpacked distribution that a folder is in; None if it is in none.

    It is in the name of the distribution's folder, `vllm-0.33.0.dist-info`, next to `vllm/`.
    """
    for parent in (folder, *folder.parents):
        if parent.name == project:
            found = sorted(parent.parent.glob(f"{project}-*.dist-info"))
            if len(found) == 1:
                return found[0].name.removeprefix(f"{project}-").removesuffix(".dist-info").partition("+")[0]
    return None


def _version(file: ToolFile, stated: Any, triton: str | None) -> str:
    try:
        version = check_text(stated)
    except FormatError as fault:
        raise file.fault(fault.what, (VERSION_KEY,)) from fault
    if triton is not None and version != triton:
        raise file.fault(f"{version!r}, but the file is in a folder for Triton {triton}", (VERSION_KEY,))
    return version
