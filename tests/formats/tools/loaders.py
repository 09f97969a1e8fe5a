"""The functions with which vLLM, SGLang and FlashInfer read tuned files, taken out of their source and run alone.

Importing these packages needs a GPU's libraries, and the functions do not. Without a wheel, the source is the copy in
`tests/data/tools/loaders/`. If `TUNING_REGISTRY_WHEELS` names a folder with wheels of these, the source and the
shipped files are those of the wheels:

    TUNING_REGISTRY_WHEELS=FOLDER pytest tests/formats/tools/test_launch_writer.py tests/formats/tools/test_flashinfer_writer.py
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import copy
import functools
import json
import logging
import os
import re
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Optional  # noqa: UP035  # SGLang's annotations use them
from unittest.mock import Mock

import pytest

from tests.formats.tools.helpers import TOOLS

_LOADERS = TOOLS / "loaders"
_WHEELS = os.environ.get("TUNING_REGISTRY_WHEELS")
_FUNCTIONS = {
    "vllm/model_executor/layers/fused_moe/fused_moe.py": {"get_config_file_name", "get_moe_configs"},
    "vllm/model_executor/layers/fused_moe/fused_flydsl_moe.py": {"try_get_optimal_config"},
    "vllm/model_executor/layers/quantization/utils/fp8_utils.py": {"get_w8a8_block_fp8_configs"},
    "vllm/model_executor/layers/mamba/ops/mamba_ssm.py": {
        "get_ssm_config_file_name",
        "get_ssm_device_name",
        "_canonical_cache_dtype",
        "get_ssm_configs",
    },
    "sglang/srt/layers/moe/moe_runner/triton_utils/fused_moe_triton_config.py": {
        "get_config_file_name",
        "get_moe_configs",
    },
    "sglang/kernels/ops/gemm/fp8_kernel.py": {"get_w8a8_block_fp8_configs"},
    "sglang/kernels/ops/gemm/int8_kernel.py": {"get_w8a8_block_int8_configs"},
    "flashinfer/autotuner/autotuner.py": {
        "_json_to_tactic",
        "_classify_metadata_mismatches",
        "_format_meta_mismatches",
        "load_configs",
    },
}
_TABLES = (
    "fused_moe/configs/",
    "quantization/utils/configs/",
    "configs/selective_state_update/",
    "triton_utils/configs/triton_",
    "kernels/ops/gemm/configs/",
)


@functools.cache
def source_of(module: str) -> str:
    """The functions of a module that find and read its files."""
    there = _LOADERS / (module.replace("/", ".").removesuffix(".py") + ".txt")
    if _WHEELS is None:
        return there.read_text()
    with zipfile.ZipFile(_wheel(module.partition("/")[0])) as archive:
        text = archive.read(module).decode()
    wanted = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name in _FUNCTIONS[module]
    ]
    assert {node.name for node in wanted} == _FUNCTIONS[module]
    lines = text.splitlines()
    first = [min([node.lineno, *(one.lineno for one in node.decorator_list)]) for node in wanted]
    return "\n\n\n".join(
        textwrap.dedent("\n".join(lines[start - 1 : node.end_lineno]))
        for start, node in zip(first, wanted, strict=True)
    )


def shipped_files(project: str, folder: Path) -> list[Path]:
    """The tuned files that a project ships: those of its wheel, or those among the test data."""
    if _WHEELS is None:
        return sorted((TOOLS / project).rglob("*.json"))
    with zipfile.ZipFile(_wheel(project)) as archive:
        names = [name for name in archive.namelist() if "device_name=" in name and any(t in name for t in _TABLES)]
        archive.extractall(folder, names)
    return sorted(folder.rglob("*.json"))


def _wheel(project: str) -> Path:
    (found,) = Path(str(_WHEELS)).glob(f"{project}[-_]*.whl")
    return found


def load(module: str, place: Path, **names: Any) -> SimpleNamespace:
    """A module's functions, run as if the module were the file `place`."""
    namespace: dict[str, Any] = {
        "__file__": str(place),
        "functools": functools,
        "json": json,
        "os": os,
        "re": re,
        "Any": Any,
        "Dict": Dict,  # noqa: UP006  # by this name
        "List": List,  # noqa: UP006  # by this name
        "Optional": Optional,
        "logger": Mock(spec=logging.Logger, info_once=Mock(), warning_once=Mock()),
        **names,
    }
    code = compile(source_of(module), module, "exec", __future__.annotations.compiler_flag)
    exec(code, namespace)
    return SimpleNamespace(**{name: namespace[name] for name in _FUNCTIONS[module]})


def read_with_vllm(folder: Path, name: Mapping[str, str], device: str) -> Any:
    """What vLLM reads for the parts of a file's name on a device, with `folder` as its tuned and installed files."""
    layers = "vllm/model_executor/layers"
    common = {
        "envs": SimpleNamespace(VLLM_BATCH_INVARIANT=False, VLLM_TUNED_CONFIG_FOLDER=str(folder)),
        "get_device_name_as_file_name": lambda: re.sub(r"[\s/]+", "_", device),
    }
    if "headdim" in name:
        ops = load(f"{layers}/mamba/ops/mamba_ssm.py", folder, _CONFIGS_DIR="/nowhere", **common)
        return ops.get_ssm_configs(int(name["headdim"]), int(name["dstate"]), name["cache_dtype"])
    shape = json.loads(name.get("block_shape", "[null, null]"))
    if "K" in name:
        utils = load(f"{layers}/quantization/utils/fp8_utils.py", folder / "quantization/utils/x.py", **common)
        return utils.get_w8a8_block_fp8_configs(int(name["N"]), int(name["K"]), *shape)
    if "backend" in name:
        moe = load(f"{layers}/fused_moe/fused_flydsl_moe.py", folder / "fused_moe/x.py", **common)
        return moe.try_get_optimal_config(int(name["E"]), int(name["N"]))
    moe = load(f"{layers}/fused_moe/fused_moe.py", Path("/nowhere/x.py"), **common)
    return moe.get_moe_configs(int(name["E"]), int(name["N"]), name.get("dtype"), *shape)


def read_with_sglang(
    folder: Path, name: Mapping[str, str], device: str, triton: str, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """What SGLang reads for the parts of a file's name on a device, with `folder` as its tuned and installed files."""
    monkeypatch.setenv("SGLANG_MOE_CONFIG_DIR", str(folder))
    common = {
        "get_device_name": lambda: device,
        "get_exec": lambda: SimpleNamespace(deterministic=SimpleNamespace(enable_deterministic_inference=False)),
        "triton": SimpleNamespace(__version__=triton),
        "torch": SimpleNamespace(_dynamo=SimpleNamespace(is_compiling=lambda: False)),
        "log_info_on_rank0": lambda *_: None,
        "_is_cuda": True,
    }
    shape = json.loads(name.get("block_shape", "[0, 0]"))
    if "K" in name:
        kind = name["dtype"].partition("_")[0]
        gemm = load(f"sglang/kernels/ops/gemm/{kind}_kernel.py", folder / "kernels/ops/gemm/x.py", **common)
        return getattr(gemm, f"get_w8a8_block_{kind}_configs")(int(name["N"]), int(name["K"]), *shape)
    moe = load(
        "sglang/srt/layers/moe/moe_runner/triton_utils/fused_moe_triton_config.py", Path("/nowhere/x.py"), **common
    )
    return moe.get_moe_configs(
        int(name["E"]),
        int(name["N"]),
        name.get("dtype"),
        *shape,
        per_channel_quant="per_channel_quant" in name,
        down_moe="down" in name,
    )


def read_with_flashinfer(path: Path, environment: Mapping[str, str]) -> tuple[bool, dict[str, Any], dict[str, Any]]:
    """Whether FlashInfer's autotuner loads a cache in an environment, and the choices and policies that it then has."""
    autotuner = load(
        "flashinfer/autotuner/autotuner.py",
        path,
        copy=copy,
        _METADATA_KEY="_metadata",
        _CACHE_GENERATION_KEY="_generation",
        _NAMESPACED_RECORDS_KEY="_records",
        _INDETERMINATE_META_VALUES=(None, "unknown", "None"),
        _collect_metadata=lambda: dict(environment),
    )
    tuner = SimpleNamespace(
        _lock=contextlib.nullcontext(),
        _file_configs={},
        _file_config_policies={},
        _file_config_selections={},
        _namespaced_records={},
        _dirty_namespaces=set(),
        _warned_cache_mismatch=set(),
        _observe_cache_generation=lambda *_: None,
    )
    is_loaded = autotuner.load_configs(tuner, str(path))
    return is_loaded, tuner._file_configs, tuner._file_config_policies
