#!/usr/bin/env python3
"""What recording and pinning do to kernels under torch.compile, on a GPU.

    python benchmarks/bench_compile.py [--folder FOLDER] [--steps 300] [--pairs 3] [--only-speed]

Runs the programs of `compile_kernels.py` in separate processes: stock (cold and with warm caches), recorded by two
processes, recorded again over warm caches, pinned by two processes, pinned over warm caches, pinned without
torch.compile, and, over the same warm caches, with another table, with no table, and with nothing of ours. For each it
prints the candidates that Triton and Inductor timed, the compiled candidates per kernel, the sources of the choices, the
seconds of the first calls, and the microseconds of a warm step. Then it checks that pinned bits are equal between
processes and between eager and compiled launches, that each table's configs were launched, and that no pinned run timed
or compiled more than it should; exits 1 if one of these does not hold.

For the speed, stock and pinned processes with warm caches take turns, and the smallest figure of each counts: so many
pairs as `--pairs` states. `--only-speed` records once, exports, and runs these pairs alone. Needs torch and Triton, and a
GPU that nothing else uses.
"""

# ruff: noqa: E402 - the package is found first

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from tuning_registry import merge_records, write
from tuning_registry.model.canonical import config_text


def work(programs: list[str], steps: int, *, compiled: bool) -> None:
    """In a separate process, run the programs under the environment's policy, and print what happened as JSON."""
    import torch
    import triton

    from tuning_registry.runtime import choice_log, coverage_report, install, uninstall

    timed: Counter[str] = Counter()
    count_calls(triton.runtime.Autotuner, "_bench", "triton", timed)
    began = time.perf_counter()
    install()
    install_s = time.perf_counter() - began
    import compile_kernels
    from torch._inductor.runtime import triton_heuristics

    count_calls(triton_heuristics.CachingAutotuner, "bench", "inductor", timed,
                lambda autotuner: bool(autotuner.custom_kernel))  # fmt: skip
    results = {name: run_program(compile_kernels, name, steps, compiled=compiled) for name in programs}
    torch.cuda.synchronize()
    report = coverage_report()
    answer = {
        "results": results, "timed": timed, "install_s": install_s, "reached": report.reached,
        "not_covered": report.not_covered, "misses": [(m.kernel, m.key, m.reason, m.instead) for m in report.misses],
        "faults": report.faults, "choices": [(c.kernel, c.key, c.config, c.source) for c in choice_log()],
        "own_compiled": len(list(Path(os.environ["TRITON_CACHE_DIR"]).glob("*/triton_*.cubin"))),
        "compiled": {name: len(list(Path(os.environ["TRITON_CACHE_DIR"]).glob(f"*/{name}.cubin")))
                     for name in compile_kernels.KERNELS},
    }  # fmt: skip
    uninstall()
    print("ANSWER " + json.dumps(answer), flush=True)


def count_calls(owner: Any, name: str, kind: str, counts: Counter[str], only: Any = None) -> None:
    """Count the calls of a function that times one candidate."""
    original = getattr(owner, name)

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        if only is None or only(self):
            counts[kind] += 1
        else:
            counts[f"{kind}, own kernels"] += 1
        return original(self, *args, **kwargs)

    setattr(owner, name, counting)


def run_program(kernels: Any, name: str, steps: int, *, compiled: bool) -> dict[str, Any]:
    """The first calls of a program, its bits, and its warm steps."""
    import torch

    function, (rows, n), options = kernels.PROGRAMS[name]
    x = kernels.data(rows, n)
    torch.cuda.synchronize()
    run = torch.compile(function, **options) if compiled else function
    began = time.perf_counter()
    run(x)
    torch.cuda.synchronize()
    first_s = time.perf_counter() - began
    for _ in range(3):
        out = run(x)
    bits = hashlib.sha256(out.cpu().numpy().tobytes()).hexdigest()[:16]
    step_us = []
    for _ in range(7):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            run(x)
        torch.cuda.synchronize()
        step_us.append((time.perf_counter() - began) / steps * 1e6)
    return {"first_s": first_s, "bits": bits, "step_us": min(step_us)}


class Bench:
    """Runs the processes, and keeps what they print.

    Args:
        folder: For caches, recordings and tables.
        steps: Warm steps per measurement.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder = folder
        self.steps = steps
        self.answers: dict[str, Any] = {}
        self.table: dict[str, Any] = {}  # made of the recordings

    def start(self, cache: str, programs: list[str], *, compiled: bool = True, **variables: Any) -> Any:
        """Start a process with the caches of this name."""
        caches = self.folder / "caches" / cache
        environment = {
            **os.environ, "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"), "TRITON_CACHE_DIR": str(caches / "triton"),
            **variables,
        }  # fmt: skip
        options = ["--work", ",".join(programs), "--steps", str(self.steps), *([] if compiled else ["--eager"])]
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *options], env=environment, cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def finish(self, name: str, process: Any) -> dict[str, Any]:
        """Wait for a process; prints what it did."""
        output, log = process.communicate(timeout=500)
        (self.folder / f"{name}.log").write_text(log)
        lines = [line for line in output.splitlines() if line.startswith("ANSWER ")]
        if process.returncode or not lines:
            sys.exit(f"{name} failed:\n{log[-4000:]}")
        answer: dict[str, Any] = json.loads(lines[-1].removeprefix("ANSWER "))
        self.answers[name] = answer
        show(name, answer)
        for line in log.splitlines():
            if "tuning_registry" in line:
                print("   |", line[:260])
        return answer

    def run(self, name: str, cache: str, programs: list[str], **variables: Any) -> dict[str, Any]:
        """Start a process and wait for it."""
        return self.finish(name, self.start(cache, programs, **variables))


def show(name: str, answer: dict[str, Any]) -> None:
    """Print what one process did."""
    results = answer["results"]
    sources = Counter(f"{source} {'own' if kernel.startswith('torch._') else ''}".strip()
                      for kernel, _, _, source in answer["choices"])  # fmt: skip
    print(f"== {name}: timed {dict(answer['timed'])}, compiled {answer['compiled']}, sources {dict(sources)}, "
          f"misses {len(answer['misses'])}, faults {answer['faults']}")  # fmt: skip
    print("   first call s: " + ", ".join(f"{p} {r['first_s']:.2f}" for p, r in results.items())
          + f"; total {sum(r['first_s'] for r in results.values()):.2f}")  # fmt: skip
    print("   warm step us: " + ", ".join(f"{p} {r['step_us']:.1f}" for p, r in results.items()))
    print("   bits: " + ", ".join(f"{p} {r['bits'][:6]}" for p, r in results.items()))
    for kernel, why in answer["not_covered"]:
        print(f"   not covered: {kernel}: {why}")
    for miss in answer["misses"]:
        print("   miss:", *miss)


def bits(answer: dict[str, Any], programs: list[str]) -> dict[str, str]:
    """The bits of each program."""
    return {program: answer["results"][program]["bits"] for program in programs}


def launched(answer: dict[str, Any]) -> dict[tuple[str, str], str]:
    """The config by kernel and key, of the user's kernels."""
    return {(kernel, key): config for kernel, key, config, _ in answer["choices"] if not kernel.startswith("torch._")}


def other_table(kernels: Any) -> Any:
    """A table with another config for every key, that pruning leaves."""
    changed: dict[str, dict[str, Any]] = {}
    for kernel, entries in kernels.items():
        for key, config in entries.items():
            block = 128 if config["kwargs"]["BLOCK"] != 128 else 256
            changed.setdefault(kernel, {})[key] = {**config, "kwargs": {"BLOCK": block}, "num_warps": 2}
    return changed


def main() -> None:
    """Run everything and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only-speed", action="store_true")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    parser.add_argument("--eager", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work.split(","), options.steps, compiled=not options.eager)
        return
    folder = options.folder or Path(tempfile.mkdtemp(prefix="bench-compile-"))
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(folder, options.steps)
    if not options.only_speed:
        measure(bench)
    compare_speed(bench, options.pairs)
    if not options.only_speed:
        check(bench)


def architecture() -> str:
    """The GPU's architecture; prints what is measured with."""
    import torch
    import triton

    major, minor = torch.cuda.get_device_capability()
    print(f"torch {torch.__version__}, Triton {triton.__version__}, {torch.cuda.get_device_name()}")
    return f"sm{major}{minor}"


def compare_speed(bench: Bench, pairs: int) -> None:
    """Let stock and pinned processes take turns over warm caches; prints the least of each figure."""
    import triton
    from compile_kernels import PROGRAMS

    arch, tables = architecture(), bench.folder / "speed"
    programs = [program for program in PROGRAMS if program not in {"own", "custom_op"}]  # those that Inductor pins
    tables.mkdir(exist_ok=True)
    place = str(bench.folder / "speed-rec")
    off, pinned = (
        {"TUNING_REGISTRY_MODE": "off"},
        {"TUNING_REGISTRY_MODE": "pinned", "TUNING_REGISTRY_TABLE_PATH": str(tables)},
    )
    bench.run("speed: recorded", "speed-rec", programs, TUNING_REGISTRY_RECORD_PATH=place, TUNING_REGISTRY_RUN="speed")
    merged = merge_records(sorted(bench.folder.glob("speed-rec.*.json")))[arch]
    write(arch, merged, tables / f"{arch}.json", triton=triton.__version__)
    bench.run("speed: stock, cold", "speed-stock", programs, **off)
    bench.run("speed: pinned, cold", "speed-pinned", programs, **pinned)
    least: dict[str, dict[str, list[float]]] = {"stock": {}, "pinned": {}}
    for number in range(pairs):
        for name, variables in (("stock", off), ("pinned", pinned)):
            answer = bench.run(f"speed: {name}, warm {number}", f"speed-{name}", programs, **variables)
            for program, result in answer["results"].items():
                for kind in ("first_s", "step_us"):
                    least[name].setdefault(f"{program} {kind}", []).append(result[kind])
    print(f"\n{'least of ' + str(pairs):24} {'stock':>9} {'pinned':>9} {'ratio':>6}")
    for figure, values in least["stock"].items():
        stock, ours = min(values), min(least["pinned"][figure])
        print(f"{figure:24} {stock:9.3f} {ours:9.3f} {ours / stock:6.2f}")
    for kind in ("first_s", "step_us"):
        total = {
            name: sum(min(v) for figure, v in found.items() if figure.endswith(kind)) for name, found in least.items()
        }
        print(
            f"{'all ' + kind:24} {total['stock']:9.3f} {total['pinned']:9.3f} {total['pinned'] / total['stock']:6.2f}"
        )


def measure(bench: Bench) -> None:
    """Run the processes whose choices, bits and counts are checked, one after the other."""
    import triton
    from compile_kernels import PROGRAMS

    arch = architecture()
    every = list(PROGRAMS)
    user = [program for program in every if program != "own"]
    tables = bench.folder / "tables"
    tables.mkdir(exist_ok=True)
    record: dict[str, Any] = {"TUNING_REGISTRY_RUN": "bench", "TUNING_REGISTRY_RECORD_PATH": str(bench.folder / "rec"), "WORLD_SIZE": "2",
              "LOCAL_RANK": "0"}  # fmt: skip
    pinned: dict[str, Any] = {"TUNING_REGISTRY_MODE": "pinned", "TUNING_REGISTRY_TABLE_PATH": str(tables)}

    bench.run("stock cold", "stock", every, TUNING_REGISTRY_MODE="off")
    bench.run("stock warm", "stock", every, TUNING_REGISTRY_MODE="off")
    ranks = [bench.start(f"rank{rank}", every, RANK=str(rank), **record) for rank in range(2)]
    for rank, process in enumerate(ranks):
        bench.finish(f"recorded rank {rank}", process)
    bench.run(
        "recorded again",
        "rank0",
        every,
        **{**record, "TUNING_REGISTRY_RECORD_PATH": str(bench.folder / "echo")},
        RANK="0",
    )
    merged = merge_records(sorted(bench.folder.glob("rec.*.json")))[arch]
    write(arch, merged, tables / f"{arch}.json", triton=triton.__version__)
    print("table:", {kernel: len(entries) for kernel, entries in merged.items()})
    pair = [bench.start(f"pinned{i}", every, **pinned) for i in range(2)]
    for i, process in enumerate(pair):
        bench.finish(f"pinned {i}", process)
    bench.run("pinned warm", "pinned0", every, **pinned)
    bench.run("pinned eager", "eager", user, compiled=False, **pinned)
    write(arch, other_table(merged), tables / f"{arch}.json", triton=triton.__version__)
    bench.run("table changed", "pinned0", user, **pinned)
    bench.run("table changed eager", "eager2", user, compiled=False, **pinned)
    (tables / f"{arch}.json").unlink()
    bench.run("table removed", "pinned0", user, **pinned)
    bench.run("stock over pinned caches", "pinned0", user, TUNING_REGISTRY_MODE="off")
    bench.table = merged


def check(bench: Bench) -> None:
    """Print which claims hold; exit 1 if one does not."""
    a, merged = bench.answers, bench.table
    user = list(a["pinned eager"]["results"])
    changed = other_table(merged)
    table = {
        (kernel, key): config_text(config) for kernel, entries in merged.items() for key, config in entries.items()
    }
    new = {(kernel, key): config_text(config) for kernel, entries in changed.items() for key, config in entries.items()}
    claims = {
        "every pinned run timed no candidate of the user's kernels": all(
            not a[name]["timed"].get("triton") and not a[name]["timed"].get("inductor")
            for name in ("pinned 0", "pinned 1", "pinned warm", "pinned eager", "table changed", "table removed")
        ),
        "of a kernel with static sizes, one candidate was compiled for each key": all(
            a[name]["compiled"][kernel] == 1
            for name in ("pinned 0", "pinned 1")
            for kernel in ("even_sum", "pruned_sum")
        ),
        "pinned bits are equal in two processes": bits(a["pinned 0"], user) == bits(a["pinned 1"], user),
        "pinned bits are equal with warm caches": bits(a["pinned 0"], user) == bits(a["pinned warm"], user),
        "pinned bits are equal, compiled and eager": bits(a["pinned 0"], user) == bits(a["pinned eager"], user),
        "the same with the changed table": bits(a["table changed"], user) == bits(a["table changed eager"], user),
        "the table's configs were launched": launched(a["pinned 0"]) == table == launched(a["pinned eager"]),
        "the changed table's configs were launched over warm caches": launched(a["table changed"]) == new,
        "without a table, other configs were launched over warm caches": all(
            source == "min_cost"
            for kernel, _, _, source in a["table removed"]["choices"]
            if not kernel.startswith("torch._")
        ),
        "a warm cache gave echoes, no votes": not a["recorded again"]["timed"].get("inductor"),
        "no fault was caught": all(not answer["faults"] for answer in a.values()),
    }
    print()
    for claim, holds in claims.items():
        print("holds" if holds else "FAILS", claim)
    if not all(claims.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
