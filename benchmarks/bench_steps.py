#!/usr/bin/env python3
"""Steps of a real training, stock, recorded and pinned in turn: are pinned steps slower, and if so, why?

usage: bench_steps.py RECORDED FOLDER      # on a GPU, after examples/train_fla/run.py RECORDED --caches CACHES
           --cache CACHES/recorded-0

Trains the model of `examples/train_fla` in one process, without collectives, with five ways to choose configs:

    stock             Triton as it is; it finds rank 0's results of tuning in the cache
    recorded          the same, recorded
    pinned-own        pinned to what rank 0 chose: the same configs, so a difference is the cost of launches
    pinned-majority   pinned to the elected table
    pinned-fastest    pinned to the table of lowest medians

Each run is a new process over one warm Triton cache, and the modes take turns for several rounds. A run reports the
median of its steps with a wait after each step, the mean of as many steps without waiting, the host time of those,
and the GPU time of each kernel as PyTorch's profiler sees it. Writes FOLDER/steps.json and FOLDER/steps.txt.
"""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call, attr-defined, no-any-return, misc"
# (Triton, torch and fla come without types, or not at all.)

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "train_fla")]

MODES = ("stock", "recorded", "pinned-own", "pinned-majority", "pinned-fastest")
FIGURES = ("median_ms", "free_ms", "host_ms")


def child(mode: str, table: str, steps: int, record_path: str) -> dict[str, Any]:
    """Train in this process; what its steps took."""
    import torch

    from tuning_registry.runtime import choice_digest, coverage_report, install

    if mode == "recorded":
        install(record_path=record_path, run=f"steps-{os.getpid()}")
    elif mode != "stock":
        install(mode="pinned", table_path=table, on_miss="error")
    from train import Training

    training = Training(torch.device("cuda", 0), rank=0, layers=4, batch=8, length=512)
    began = time.perf_counter()
    training.step().item()
    first = time.perf_counter() - began
    for _ in range(15):
        training.step().item()
    waited = []
    for _ in range(steps):
        began = time.perf_counter()
        training.step().item()
        waited.append(1000 * (time.perf_counter() - began))
    host = []
    free_began = time.perf_counter()
    for _ in range(steps):
        began = time.perf_counter()
        training.step()
        host.append(1000 * (time.perf_counter() - began))
    torch.cuda.synchronize()
    free = 1000 * (time.perf_counter() - free_began) / steps
    tenths = statistics.quantiles(waited, n=10)
    found: dict[str, Any] = {
        "first_step_s": round(first, 3), "median_ms": round(statistics.median(waited), 3), "p10_ms": round(tenths[0], 3),
        "p90_ms": round(tenths[-1], 3), "free_ms": round(free, 3), "host_ms": round(statistics.median(host), 3),
        "choices": "" if mode == "stock" else choice_digest()[:12],
        "misses": 0 if mode == "stock" else len(coverage_report().misses),
        "parameters_sha256": training.parameters_sha256(),
    }  # fmt: skip
    try:
        found["kernels_us"] = kernel_times(training)
    except Exception as error:  # noqa: BLE001 - a profiler that fails must not lose the steps
        found["profile_error"] = f"{type(error).__name__}: {error}"
    return found


def kernel_times(training: Any, steps: int = 5) -> dict[str, float]:
    """GPU microseconds a step of each kernel."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            training.step()
        torch.cuda.synchronize()
    times: dict[str, float] = defaultdict(float)
    for event in profiler.key_averages():
        times[event.key[:100]] += float(getattr(event, "self_device_time_total", 0)) / steps
    return {name: round(time_us, 2) for name, time_us in sorted(times.items(), key=lambda item: -item[1]) if time_us}


def own_table(recording: Path, folder: Path) -> Path:
    """A table of what one rank chose."""
    from tuning_registry import merge_records, write

    ((arch, kernels),) = merge_records([recording]).items()
    target = folder / "own" / f"{arch}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    write(arch, kernels, target)
    return target.parent


def differing(recordings: Sequence[Path], table: Path) -> list[dict[str, Any]]:
    """The entries for which a table has another config than rank 0 chose, with both configs' times on every rank."""
    from tuning_registry.formats.recordings import read_recording
    from tuning_registry.model.canonical import config_text

    ranks = [read_recording(file) for file in recordings]
    (file,) = table.glob("*.json")
    found = []
    for kernel, keys in json.loads(file.read_text())["kernels"].items():
        for key, config in keys.items():
            arch = file.stem
            own, other = ranks[0].votes[arch].get(kernel, {}).get(key), config_text(config)
            if own is None or own == other:
                continue
            medians = [
                {timing.config: timing.median_ms for timing in rank.timings[arch].get(kernel, {}).get(key, ())}
                for rank in ranks
            ]
            found.append({
                "kernel": kernel, "key": key, "own": own, "table": other,
                "own_us": [round(1000 * (m.get(own) or float("nan")), 2) for m in medians],
                "table_us": [round(1000 * (m.get(other) or float("nan")), 2) for m in medians],
            })  # fmt: skip
    return found


def start(mode: str, table: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One run in a new process; its figures, or why there are none."""
    command = [sys.executable, __file__, str(options.recorded), str(options.folder), "--cache", str(options.cache),
               "--steps", str(options.steps), "--child", mode, "--table", str(table)]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TUNING_REGISTRY_MODE")}
    environment |= {
        "TRITON_CACHE_DIR": str(options.cache),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "OMP_NUM_THREADS": "1",
    }
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                              timeout=options.run_limit_s)  # fmt: skip
        if done.returncode:
            return {"error": f"exit {done.returncode}: {done.stderr[-1500:]}"}
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return {"error": f"{type(error).__name__}: {str(error)[-300:]}"}
    return found


def report(rounds: Mapping[str, list[dict[str, Any]]], differences: Mapping[str, list[dict[str, Any]]]) -> str:
    """The figures as text: medians over rounds, with the lowest and the highest round."""
    lines = [f"{'MODE':<18}{'STEP ms':>24}{'NOT WAITING ms':>24}{'HOST ms':>24}{'GPU ms':>10}  ROUNDS"]
    for mode, runs in rounds.items():
        good = [run for run in runs if "error" not in run]
        if not good:
            lines.append(f"{mode:<18}  {runs[-1]['error'].splitlines()[-1][:150] if runs else 'not run'}")
            continue
        cells = []
        for figure in FIGURES:
            values = [run[figure] for run in good]
            cells.append(f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})")
        gpu = [sum(run["kernels_us"].values()) / 1000 for run in good if run.get("kernels_us")]
        cells_text = "".join(f"{cell:>24}" for cell in cells)
        lines.append(f"{mode:<18}{cells_text}{statistics.median(gpu) if gpu else float('nan'):>10.2f}  {len(good)}")
    for mode, entries in differences.items():
        lines += ["", f"{mode}: {len(entries)} entries have another config than rank 0 chose"]
        lines += [f"  {entry['kernel']}: own {entry['own_us']} us, table {entry['table_us']} us" for entry in entries]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", type=Path, help="what examples/train_fla/run.py wrote")
    parser.add_argument("folder", type=Path, help="folder for the results")
    parser.add_argument("--cache", type=Path, required=True, help="the Triton cache of the recorded rank 0")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="20 steps, one round")
    parser.add_argument("--limit-s", type=float, default=240, help="seconds after which no run is started")
    parser.add_argument("--run-limit-s", type=float, default=90, help="seconds for each run")
    parser.add_argument("--child", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("--table", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.steps, options.rounds = 20, 1
    if options.child:
        print(json.dumps(child(options.child, options.table, options.steps, str(options.folder / "rec-steps"))))
        return 0
    began = time.monotonic()
    options.folder.mkdir(parents=True, exist_ok=True)
    recordings = sorted(options.recorded.glob("rec.*.rank*.json"))
    tables = {"pinned-own": own_table(recordings[0], options.folder),
              "pinned-majority": options.recorded / "tables" / "majority",
              "pinned-fastest": options.recorded / "tables" / "fastest"}  # fmt: skip
    differences = {mode: differing(recordings, table) for mode, table in tables.items()}
    rounds: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    for number in range(options.rounds):
        for mode in MODES if number % 2 == 0 else reversed(MODES):
            if time.monotonic() - began > options.limit_s:
                break
            rounds[mode].append(start(mode, tables.get(mode, Path()), options))
            shown = {name: value for name, value in rounds[mode][-1].items() if name != "kernels_us"}
            print(f"round {number + 1} {mode}: {json.dumps(shown)[:600]}", flush=True)
            results = {"rounds": rounds, "differences": differences, "steps": options.steps}
            (options.folder / "steps.json").write_text(json.dumps(results, indent=1) + "\n")
            (options.folder / "steps.txt").write_text(report(rounds, differences))
    print((options.folder / "steps.txt").read_text(), flush=True)
    return 1 if any("error" in run for runs in rounds.values() for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
