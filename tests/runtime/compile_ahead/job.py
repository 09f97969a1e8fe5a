"""A training job on a GPU that does not exist: kernels are compiled for it, and a launch ends when its kernel is loaded."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from __future__ import annotations

import json
import sys
import threading
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource
from triton.runtime.jit import JITFunction

from tuning_registry.runtime import install, uninstall
from tuning_registry.runtime.compile_ahead import background
from tuning_registry.runtime.compile_ahead.background import THREAD_NAME


class FakeGPU:
    """Enough of Triton's driver for a launch that runs nothing."""

    utils = SimpleNamespace(
        get_device_properties=lambda _: {"max_shared_mem": 232_448, "multiprocessor_count": 132},
        load_binary=lambda *_: (1, 1, 32, 0, 1024)[: 4 if hasattr(JITFunction, "_key_of") else 5],
    )

    def launcher_cls(self, *_: object) -> Any:
        return lambda *_args, **_options: None

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int = 0) -> int:
        return 0

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)

    def get_benchmarker(self) -> Any:
        return timed


def timed(call: Any, quantiles: Any) -> Any:
    """Launches once, and takes longer for each later candidate."""
    call()
    timed.count += 1
    return [float(timed.count % 3 + 1)] * len(quantiles)


timed.count = 0


def use_fake_gpu() -> None:
    triton.runtime.driver.set_active(FakeGPU())


def launch_all() -> None:
    """Launch every kernel on the keys that the job has."""
    from tests.runtime.compile_ahead import kernels

    x, odd = torch.zeros(256), torch.zeros(257)[1:]
    for n in (1, 100, 128):
        kernels.plain[(1,)](x, x, n)
    kernels.plain[(1,)](odd, x.half(), 129)
    kernels.with_heuristics[(1,)](x, x, 100, 0.5, None, "relu")
    kernels.with_heuristics[(1,)](x, x, 128, 1e-6, x, None)
    kernels.hidden(x, 64)
    kernels.made_at_import[(1,)](x, 64)


def count_compilations() -> list[str]:
    """A list that gets the name of every kernel that this process compiles from now on."""
    compiled: list[str] = []
    make_ir = ASTSource.make_ir

    def counting(self: Any, *args: Any, **options: Any) -> Any:
        compiled.append(self.name)
        return make_ir(self, *args, **options)

    ASTSource.make_ir = counting
    return compiled


def record(prefix: str) -> list[str]:
    """Run the job recording; the kernels that it compiled."""
    compiled = count_compilations()
    install(mode="record", record_path=prefix, run="job", arch="sm90")
    launch_all()
    uninstall()
    return compiled


def pinned(tables: str, **fields: Any) -> list[str]:
    """Run the job pinned, once what is done in the background is done; the kernels that its launches compiled."""
    compiled = count_compilations()
    install(mode="pinned", table_path=tables, on_miss="error", **fields)
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join()
    launch_all()
    uninstall()
    return compiled


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    use_fake_gpu()
    vars(background).update(
        usable_cores=lambda _: 2, idle_cores=lambda: 2.0, available_memory=lambda: None
    )  # however busy this machine is
    what, place, fields = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    sys.stdout.write(json.dumps(record(place) if what == "record" else pinned(place, arch="sm90", **fields)))
