#!/usr/bin/env python3
"""Cold recording runs: one rank that times every candidate, against ranks that share the work.

usage: bench_split.py OUT [--ranks 8] [--repeats 2 1]     # needs a GPU, fla and, for most of the keys, mamba_ssm
       bench_split.py --work                              # what each rank does

Every rank has an empty compile cache. The ranks of a run start together on one GPU, unless they are to run one by one.
Prints the
seconds to the first result of every rank beside those of stock autotuning and of a full recording, the largest share of
the stock time, and how the table of the shares differs from that of the full recording. OUT gets the recordings, the
tables and `result.json`.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined, no-any-return"
# (Triton, torch, fla and mamba_ssm come without types, or not at all.)

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]


def work() -> dict[str, Any]:
    """Launch every kernel once, cold; what it took."""
    import torch
    from fla.modules.norm.l2norm import l2norm
    from fla.modules.norm.layernorm import rms_norm
    from mamba_work import chunk_scan, has_mamba
    from triton.runtime.autotuner import Autotuner

    from tuning_registry.runtime import install

    timed: set[tuple[str, str, str]] = set()
    bench = Autotuner._bench  # noqa: SLF001  # the one function that takes timings

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        timed.add((self.base_fn.__name__, str(kwargs["config"]), str(kwargs.get("D", ""))))
        return bench(self, *args, **kwargs)

    Autotuner._bench = counting  # noqa: SLF001  # and this counts them
    if os.environ.get("TUNING_REGISTRY_MODE"):
        install()
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    start = time.perf_counter()
    for width in (64, 256):
        x = torch.randn(1024, 8, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        l2norm(x).backward(torch.randn_like(x))
        weight = torch.ones(width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        rms_norm(x.detach().requires_grad_(), weight, None).sum().backward()
    if has_mamba():
        chunk_scan(128, 24, batch=2, length=2048)
    torch.cuda.synchronize()
    return {"seconds": round(time.perf_counter() - start, 2), "timed": len(timed), "mamba": has_mamba()}


def run_ranks(ranks: Sequence[dict[str, str]], at_once: int) -> list[dict[str, Any]]:
    """What each rank printed; the variables of a rank are those of its process, and its name."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run_rank, ranks))


def run_rank(variables: dict[str, str]) -> dict[str, Any]:
    """One rank in a new process with an empty compile cache; what it printed."""
    name = variables["NAME"]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | variables | {"TRITON_CACHE_DIR": cache, "FLA_CACHE_RESULTS": "0"}
        environment["PYTHONPATH"] = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
        began = time.perf_counter()
        done = subprocess.run([sys.executable, __file__, "--work"], env=environment, capture_output=True, text=True,
                              check=False)  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{name}: exit {done.returncode}\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["process_seconds"] = round(time.perf_counter() - began, 1)
    print(name, json.dumps(found), *(line for line in done.stderr.splitlines() if "split" in line), flush=True)
    return found


def registry(out: Path, database: str, *arguments: str) -> str:
    """One command on a database; what it printed to stdout."""
    command = [sys.executable, "-m", "tuning_registry", "--db", f"sqlite:///{out / database}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(f"registry {' '.join(arguments[:1])}:", done.stderr.strip().replace("\n", " | "), flush=True)
    return done.stdout


def table(out: Path, database: str, recordings: Path) -> dict[str, Any]:
    """The table that the recordings of a folder elect by time, by (kernel, key)."""
    registry(out, database, "ingest", str(recordings))
    file = out / f"{database}.json"
    registry(out, database, "export", "--arch", "sm90", "--policy", "fastest", "-o", str(file))
    kernels = json.loads(file.read_text())["kernels"]
    return {f"{kernel} {key}": config for kernel, keys in kernels.items() for key, config in keys.items()}


def slowdowns(out: Path, shared: dict[str, Any], full: dict[str, Any]) -> list[float]:
    """Of the entries in which the tables differ: the shared table's config over the full one's, as full ranks timed it."""
    from tuning_registry.formats.recordings import read_recording
    from tuning_registry.model.canonical import config_text

    times: dict[tuple[str, str], list[float]] = {}  # by entry and config
    for file in (out / "full").glob("*.json"):
        for kernels in read_recording(file).timings.values():
            for kernel, keys in kernels.items():
                for key, timed in keys.items():
                    for row in timed:
                        if row.median_ms is not None:
                            times.setdefault((f"{kernel} {key}", row.config), []).append(row.median_ms)
    found = []
    for entry, config in shared.items():
        if config != full[entry]:
            mine, best = (statistics.median(times[entry, config_text(one)]) for one in (config, full[entry]))
            found.append(round(mine / best, 4))
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="Folder for recordings, tables and result.json.")
    parser.add_argument("--ranks", type=int, default=8, help="Ranks that share the work.")
    parser.add_argument("--repeats", type=int, nargs="*", default=[2, 1], help="Ranks that time each candidate.")
    parser.add_argument("--one-by-one", action="store_true", help="Run the ranks one after the other.")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        print(json.dumps(work()))
        return
    if asked.out is None:
        parser.error("OUT is missing")
    shutil.rmtree(asked.out, ignore_errors=True)
    asked.out.mkdir(parents=True)
    at_once = 1 if asked.one_by_one else asked.ranks
    record = {"TUNING_REGISTRY_MODE": "record", "WORLD_SIZE": str(asked.ranks)}

    def ranks(name: str, count: int, **split: str) -> list[dict[str, str]]:
        path = str(asked.out / name / "r")
        return [{"NAME": f"{name} {rank}", "RANK": str(rank), "TUNING_REGISTRY_RUN": name, **record, **split,
                 "TUNING_REGISTRY_RECORD_PATH": path} for rank in range(count)]  # fmt: skip

    stock, *whole = run_ranks([{"NAME": "stock"}, *ranks("full", 2)], at_once)
    full = table(asked.out, "full.db", asked.out / "full")
    result: dict[str, Any] = {
        "stock_s": stock["seconds"], "stock_timed": stock["timed"], "mamba": stock["mamba"],
        "full_s": [rank["seconds"] for rank in whole], "entries": len(full),
    }  # fmt: skip
    for repeats in asked.repeats:
        name = f"split-{repeats}"
        split = {"TUNING_REGISTRY_SPLIT": str(asked.ranks), "TUNING_REGISTRY_SPLIT_REPEATS": str(repeats)}
        shares = run_ranks(ranks(name, asked.ranks, **split), at_once)
        shared = table(asked.out, f"{name}.db", asked.out / name)
        result[name] = {
            "seconds": [rank["seconds"] for rank in shares],
            "timed": [rank["timed"] for rank in shares],
            "slowest_of_stock": round(max(rank["seconds"] for rank in shares) / stock["seconds"], 3),
            "entries": len(shared),
            "equal": sum(config == full[entry] for entry, config in shared.items()),
            "slowdowns_of_others": slowdowns(asked.out, shared, full),
        }
        (asked.out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
