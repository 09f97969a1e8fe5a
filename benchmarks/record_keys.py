#!/usr/bin/env python3
"""Record many keys of many kernels on a GPU, for the benchmark of misses.

Examples:
  record_keys.py FOLDER             # on a machine with a GPU; takes at most nine minutes
  record_keys.py FOLDER --dry       # anywhere: compiles for sm90 with a fake driver and invents times

First compiles every candidate of every key in parallel processes, which fills Triton's cache. Then times them in one
process through the project's own recorder, `install(mode="record")`. Writes FOLDER/rec.rank0.json, a recording of
version 1 with the time of every candidate, and FOLDER/progress.jsonl, one line per key. Both are written as the run
proceeds, so an interrupted run keeps its results. Needs torch, Triton and flash-linear-attention.
"""

# ruff: noqa: D102 - the fake driver has Triton's methods

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call, attr-defined, no-any-return, misc"
# (Triton and torch have no types, or are not installed.)

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import queue
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]


class FakeDriver:
    """Replaces the GPU in a dry run: enough of Triton's driver to compile for sm90. Launches nothing."""

    utils = SimpleNamespace(get_device_properties=lambda _: {"multiprocessor_count": 132, "max_shared_mem": 232_448})

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return device

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Any:
        return _invented_times

    def get_empty_cache_for_benchmark(self) -> Any:
        return None


def use_fake_gpu() -> None:
    """Install a fake driver for sm90, with which every launch ends when its kernel is compiled."""
    import torch
    import triton
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    driver.set_active(FakeDriver())
    cuda: Any = torch.cuda  # fla asks it for the device's name and size
    cuda.get_device_name = lambda *_: "NVIDIA H200"
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.device_count = lambda: 1
    cuda.device = lambda *_: contextlib.nullcontext()
    launch = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        del warmup
        return launch(self, *args, grid=grid, warmup=True, **kwargs)

    JITFunction.run = compile_only
    triton.runtime.jit.JITFunction.run = compile_only


def maker(device: str, *, filled: bool) -> Any:
    """The function that builds tensors: with random numbers for timing, empty if kernels are only compiled."""
    import torch

    build = torch.randn if filled else torch.empty

    def make(shape: tuple[int, ...], dtype: Any) -> Any:
        return build(shape, device=device, dtype=dtype)

    return make


def compile_cases(todo: Any, done: Any, deadline: float, dry: bool) -> None:
    """Compile cases in one of several processes until none is left; each tuned launch compiles its candidates."""
    import torch

    torch.set_num_threads(1)
    if dry:
        use_fake_gpu()
    from miss_cases import all_cases

    cases, make = all_cases(), maker("cpu" if dry else "cuda", filled=False)
    counts: dict[str, Any] = {}
    compile_instead_of_launching(counts, deadline)
    while time.time() < deadline:
        try:
            index = todo.get(timeout=1)
        except queue.Empty:
            break
        counts.clear()
        counts.update(compiled=0, failed=0, error="")
        began = time.time()
        try:
            cases[index].launch(make)
        except TimeoutError:
            break
        except Exception:  # noqa: BLE001  # a kernel's own wrapper; shown, and the other cases go on
            counts.update(error=traceback.format_exc()[-600:], broken=True)
        if not dry:
            torch.cuda.empty_cache()
        done.put((index, {**counts, "seconds": round(time.time() - began, 2)}))
    done.put((None, {}))


def compile_instead_of_launching(counts: dict[str, Any], deadline: float) -> None:
    """Make every tuned launch of this process compile and count its candidates, and launch nothing."""
    from triton.runtime.autotuner import Autotuner

    def compile_candidates(self: Any, *args: Any, **kwargs: Any) -> None:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        for config in self.prune_configs(kwargs):
            if time.time() > deadline:
                raise TimeoutError
            try:
                self.fn.run(*args, **{**kwargs, "warmup": True}, **config.all_kwargs())
                counts["compiled"] += 1
            except Exception as error:  # noqa: BLE001  # a candidate that does not compile is timed as failed
                counts["failed"] += 1
                counts["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        self.nargs = None

    Autotuner.run = compile_candidates


def compile_all(count: int, processes: int, deadline: float, dry: bool, log: TextIO) -> list[int]:
    """Compile the first `count` cases in parallel; return the numbers of those that are done."""
    context = multiprocessing.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    for index in range(count):
        todo.put(index)
    workers = [
        context.Process(target=compile_cases, args=(todo, done, deadline, dry), daemon=True) for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    load_fla()  # which takes a while, and the timing needs it
    ready: list[int] = []
    left = processes
    while left and time.time() < deadline + 5:
        try:
            index, counts = done.get(timeout=1)
        except queue.Empty:
            if not any(worker.is_alive() for worker in workers):
                break
            continue
        if index is None:
            left -= 1
            continue
        if not counts.get("broken"):
            ready.append(index)
        note(log, phase="compile", case=index, **counts)
    for worker in workers:
        worker.terminate()
    todo.cancel_join_thread()
    return sorted(ready)


def load_fla() -> None:
    """Import the modules whose kernels are timed later."""
    from fla.modules.causal_conv1d import ops
    from fla.ops.common import chunk_delta_h

    assert ops
    assert chunk_delta_h


def time_cases(ready: list[int], folder: Path, deadline: float, dry: bool, log: TextIO) -> None:
    """Launch every compiled case once, recording: Triton times its candidates, and the recorder keeps the times."""
    import torch
    import triton.testing

    if not dry:
        warm_up_gpu()
        shorter_timings(triton.testing)
    from miss_cases import all_cases

    from tuning_registry.runtime import install, uninstall

    policy = {"mode": "record", "record_path": str(folder / "rec"), "run": "keys-of-many-shapes",
              "source": "benchmarks/record_keys.py"}  # fmt: skip
    install({**policy, "arch": "sm90"} if dry else policy)
    cases, make = all_cases(), maker("cpu" if dry else "cuda", filled=not dry)
    try:
        for index in ready:
            if time.time() > deadline:
                note(log, phase="cut", left=len(ready) - ready.index(index))
                break
            began = time.time()
            error = ""
            try:
                cases[index].launch(make)
                if not dry:
                    torch.cuda.synchronize()
            except Exception:  # noqa: BLE001  # one kernel's fault must not end the others'; shown
                error = traceback.format_exc()[-600:]
            shape = {name: str(value) for name, value in cases[index].shape.items()}
            note(log, phase="time", case=index, kernel=cases[index].kernel, shape=shape, error=error,
                 seconds=round(time.time() - began, 2))  # fmt: skip
    finally:
        uninstall()


def warm_up_gpu() -> None:
    """Bring the clocks up before the first timing."""
    import torch

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    end = time.time() + 2
    while time.time() < end:
        for _ in range(20):
            a @ a
        torch.cuda.synchronize()


def shorter_timings(testing: Any) -> None:
    """Let Triton time for 20 ms after 4 ms of warm-up instead of 100 after 25: there are thousands of candidates."""
    usual = testing.do_bench

    def do_bench(call: Any, warmup: int = 4, rep: int = 20, **options: Any) -> Any:
        return usual(call, warmup=warmup, rep=rep, **options)

    testing.do_bench = do_bench


def note(log: TextIO, **fields: Any) -> None:
    log.write(json.dumps(fields) + "\n")
    log.flush()


def _invented_times(call: Any, quantiles: Any) -> list[float]:
    """The times of a dry run: invented, reproducible, and different for different configs."""
    call()
    held = [cell.cell_contents for cell in call.__closure__ or ()]
    config = next((str(value) for value in held if type(value).__name__ == "Config"), "")
    return [0.01 + zlib.crc32(config.encode()) % 1000 / 1e5 for _ in quantiles]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compile-s", type=float, default=240, help="Seconds after the start at which compiling ends.")
    parser.add_argument("--total-s", type=float, default=525, help="Seconds after the start at which timing ends.")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=int, default=0, help="Only this many cases; 0 for all.")
    parser.add_argument("--dry", action="store_true", help="Compile for sm90 without a GPU, and invent the times.")
    options = parser.parse_args()
    began = time.time()
    os.environ["FLA_CACHE_RESULTS"] = "0"  # fla would take times from its cache
    os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp(prefix="triton-cache-"))
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.dry:
        use_fake_gpu()
    from miss_cases import all_cases

    with (options.folder / "progress.jsonl").open("w") as log:
        count = options.limit or len(all_cases())
        ready = compile_all(count, options.processes, began + options.compile_s, options.dry, log)
        print(f"compiled {len(ready)} of {count} keys after {time.time() - began:.0f} s", flush=True)
        note(log, phase="compiled", keys=len(ready), of=count, seconds=round(time.time() - began, 1))
        time_cases(ready, options.folder, began + options.total_s, options.dry, log)
        note(log, phase="end", seconds=round(time.time() - began, 1))
    print(f"done after {time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
