"""Triton's real Autotuner over kernels that run nothing and timers that measure nothing."""

# ruff: noqa: ARG002, ANN001, E402 - fakes take what Triton passes

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from __future__ import annotations

import itertools
import json
import types
from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton")
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from tuning_registry.formats.recordings import read_recording
from tuning_registry.formats.table import table_bytes, table_payload
from tuning_registry.model.canonical import live_config_text, parse_config
from tuning_registry.runtime import AutotunePolicy, install

Config = triton.Config


def nothing() -> None:
    """A function with a source, which `triton.jit` reads."""


HAS_LISTENER = hasattr(getattr(getattr(triton, "knobs", None), "autotuning", None), "listener")
KEEPS_DEVICE_CACHES = hasattr(triton.jit(nothing), "device_caches")
HAS_DISK_CACHE = hasattr(Autotuner, "check_disk_cache")
ARCH = "sm90"
NAME = "pkg.ops.kernel"  # of the kernel that `autotuner` makes by default


class Tensor:
    """Has a dtype, and must never be turned into text or a truth value."""

    def __init__(self, dtype: Any = "torch.float32") -> None:
        self.dtype = dtype

    def __str__(self) -> str:
        raise AssertionError("a tensor was turned into text")

    def __bool__(self) -> bool:
        raise AssertionError("a tensor was asked for its truth")

    __repr__ = __str__


class FakeJIT(JITFunction):
    """A JITFunction (as Triton's listener expects) that compiles nothing and notes its launches."""

    def __init__(self, fn: Any, arg_names: Any, behave: Any = None) -> None:
        self.fn = fn
        self.__name__ = fn.__name__
        self.arg_names = list(arg_names)
        self.launches: list[dict[str, Any]] = []
        self.behave = behave
        self.compiled: dict[str, Any] = {}
        # Where the releases keep what they have compiled, by device.
        self.device_caches: dict[int, Any] = {0: (self.compiled, {})}
        self.cache: dict[int, Any] = {0: self.compiled}
        delattr(self, "cache" if KEEPS_DEVICE_CACHES else "device_caches")

    def run(self, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> Any:
        self.launches.append(kwargs)
        self.compiled["key"] = "a kernel"
        if self.behave is not None:
            self.behave(*args, **kwargs)
        return "launched"


class PlainKernel:
    """A kernel that is not a JITFunction, as in Triton's interpreter."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.launches: list[dict[str, Any]] = []

    def run(self, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> None:
        self.launches.append(kwargs)


class Timer:
    """A `do_bench` that answers from a list of medians, runs the kernel once, and counts."""

    def __init__(self, medians: Any = None, runs: Any = True) -> None:
        self.medians = None if medians is None else itertools.cycle(medians)
        self.calls = 0
        self.runs = runs

    def __call__(self, kernel_call: Any, quantiles: Any) -> Any:
        self.calls += 1
        if self.runs:
            kernel_call()
        median = float(self.calls) if self.medians is None else next(self.medians)
        if median is None:
            raise OutOfResources(2, 1, "shared memory")
        return [median, median * 0.9, median * 1.1]


def function(name: Any = "kernel", module: Any = "pkg.ops") -> Any:
    """A plain function with a separate name and module."""
    made = types.FunctionType((lambda *a: None).__code__, {"__name__": module}, name)
    made.__module__, made.__qualname__ = module, name
    return made


def autotuner(configs: Any=None, key: Any=("M",), args: Any=("x", "y", "M"), *, name: Any="kernel", module: Any="pkg.ops", timer: Any=None,
              cls=Autotuner, behave: Any=None, reset_to_zero: Any=None, restore_value: Any=None, plain: Any=False, **options: Any) -> Any:  # fmt: skip
    """A real Autotuner over a fake kernel; `.timer` is its clock, `.fn.launches` what was launched."""
    configs = three() if configs is None else configs
    fn = function(name, module)
    kernel = PlainKernel(fn) if plain else FakeJIT(fn, args, behave)
    timer = timer or Timer()
    made = cls(kernel, list(args), configs, list(key), reset_to_zero, restore_value, do_bench=timer, **options)
    made.timer = timer
    return made


def three() -> Any:
    return [
        Config({"BLOCK_M": 128}, num_warps=8),
        Config({"BLOCK_M": 64}, num_warps=4),
        Config({"BLOCK_M": 32}, num_warps=4),
    ]


def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    return kernel[(1,)](*(args or (Tensor(), Tensor(), 16)), **kwargs)


def launched(kernel: Any) -> Any:
    """BLOCK_M of every launch."""
    return [kwargs.get("BLOCK_M") for kwargs in kernel.fn.launches]


def text_of(config: Any) -> str:
    """A live config's canonical text, which it must have."""
    text = live_config_text(config)
    assert text is not None
    return text


def stored(config: Any) -> Any:
    """A live config as a table stores it."""
    return parse_config(text_of(config))


def write_table(folder: Path, kernels: Any, arch: Any = ARCH, **provenance: Any) -> Path:
    """A table file from `{kernel: {key: config}}`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{arch}.json"
    file.write_bytes(table_bytes(table_payload(arch, kernels, **provenance)))
    return file


KEY = "M=16|torch.float32|torch.float32"


def only_recording(folder: Path) -> Any:
    """The one recording in a folder."""
    (file,) = sorted(folder.glob("*.json"))
    return read_recording(file)


def counted(folder: Path) -> Any:
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


class Counting(Autotuner):
    """As flash-linear-attention's: own `run` that calls the base class."""

    n = 0

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.n += 1
        return super().run(*args, **kwargs)


class AutotuneKey:
    """As flash-linear-attention's; counts."""

    built = 0

    @classmethod
    def build(cls, names: Any, keys: Any, args: Any, kwargs: Any) -> Any:
        cls.built += 1
        named = {**dict(zip(names, args, strict=False)), **kwargs}
        dtypes = [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
        return (*(named[key] for key in keys if key in named), *dtypes)


class CachedAutotuner(Autotuner):
    """As flash-linear-attention's in release 0.6.0: looks for its own config before it calls the base class."""

    own: Any = None  # the config that it finds

    def should_check_fla_cache(self, key: Any) -> bool:
        return key not in self.cache

    def maybe_load_cached_config(self, key: Any, nargs: Any, runtime_kwargs: Any) -> None:
        if self.own is not None:
            self.cache[key] = self.own

    def run(self, *args: Any, **kwargs: Any) -> Any:
        key = AutotuneKey.build(self.arg_names, self.keys, args, kwargs)
        if self.should_check_fla_cache(key):
            self.maybe_load_cached_config(key=key, nargs=dict(zip(self.arg_names, args)), runtime_kwargs=kwargs)  # noqa: B905 - as in fla
        return super().run(*args, **kwargs)


CachedAutotuner.__module__ = CachedAutotuner.run.__module__ = "fla.ops.utils.cache"


class Bypassing(Autotuner):
    """Never calls the base class."""

    def run(self, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> Any:
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs, **self.configs[0].all_kwargs())


def pin(tmp_path: Path, config: Any, *, name: Any = NAME, key: Any = KEY, kernels: Any = None, **fields: Any) -> Any:
    """Install a policy that pins from a table with this config, or with these kernels."""
    path = write_table(tmp_path / "tables", kernels or {name: {key: config}})
    return install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH, **fields))
