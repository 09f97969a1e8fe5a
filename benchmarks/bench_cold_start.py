#!/usr/bin/env python3
"""The cold start of a pinned job: with its kernels compiled in the background, and without.

usage: bench_cold_start.py OUT [--keys 45] [--rounds 3] [--limit-s 600]   # needs a GPU, torch, Triton and fla
       bench_cold_start.py OUT --fake                                     # anywhere: compiles for sm90, launches nothing

Some processes record the first two candidates of each key, each a part of the keys. Their recordings are ingested, and a
table is exported. Then each round runs new processes, one after the other: pinned with an empty compile cache (`plain`: background compilation is off),
the same with background compilation (`ahead`), and pinned from the cache that `ahead` filled (`warm` with background
compilation, `warm-off` without). Prints, for each process, the seconds
from its start to the end of its first step, those from its imports on, and how many kernels its launches compiled.
OUT gets the table and `result.json`, whose first figure is the goal: `ahead` over `warm-off`, at most 1.3.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined, no-any-return"
# (Triton, torch and fla have no types, or are not installed.)

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]


def work(keys: int, candidates: int, fake: bool) -> dict[str, Any]:
    """Launch as many cases as asked, under the policy that the environment states; what it took."""
    from tuning_registry.runtime import install, uninstall

    began = time.perf_counter()
    if os.environ.get("TUNING_REGISTRY_MODE") == "record":
        from triton.runtime.autotuner import Autotuner

        prune = Autotuner.prune_configs  # replaced before the recorder does it: it must see what is timed
        Autotuner.prune_configs = lambda self, kwargs: list(prune(self, kwargs))[:candidates]
    policy = install() if os.environ.get("TUNING_REGISTRY_MODE") else None  # first, as the launcher does
    import torch
    from triton.compiler.compiler import ASTSource

    if fake:
        from record_keys import use_fake_gpu

        use_fake_gpu()
    compiled: list[str] = []
    make_ir = ASTSource.make_ir

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        compiled.append(self.name)
        return make_ir(self, *args, **kwargs)

    ASTSource.make_ir = counting
    from miss_cases import all_cases

    cases = all_cases()[:keys]
    if policy is not None and policy.mode == "record":
        cases = cases[int(os.environ["RANK"]) :: int(os.environ["WORLD_SIZE"])]
    imported = time.perf_counter()
    errors = []
    for case in cases:
        try:
            case.launch(
                lambda shape, dtype: torch.empty(shape, dtype=dtype, device="cpu" if fake else "cuda").fill_(0.5)
            )
        except Exception as error:  # noqa: BLE001  # of one case; the others go on
            errors.append(f"{case.kernel}: {type(error).__name__}: {str(error)[:200]}")
    if not fake:
        torch.cuda.synchronize()
    ended = time.perf_counter()
    uninstall()
    return {
        "import_s": round(imported - began, 2), "launch_s": round(ended - imported, 2), "compiled": len(compiled),
        "errors": errors, "last": sorted(set(compiled))[:4],
    }  # fmt: skip


def process(name: str, arguments: list[str], cache: Path, **variables: str) -> dict[str, Any]:
    """Run the work in a new process with this compile cache; what it printed, and what its log says."""
    environment = os.environ | variables | {
        "TRITON_CACHE_DIR": str(cache), "FLA_CACHE_RESULTS": "0", "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
        "TUNING_REGISTRY_RUN": "cold",
    }  # fmt: skip
    start = time.perf_counter()
    command = [sys.executable, "-W", "ignore", __file__, "--work", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: exit {done.returncode}\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["process_s"] = round(time.perf_counter() - start, 2)
    said = [line.partition("tuning_registry: ")[2] for line in done.stderr.splitlines() if "tuning_registry: " in line]
    found["said"] = [line for line in said if any(word in line for word in ("compil", "pinned", "recorded"))][:12]
    print(f"{name:9}", json.dumps(found), flush=True)
    return found


def table_of(out: Path) -> Path:
    """The table of the recording in OUT, exported with its compile data."""
    for arguments in (
        ["ingest", str(out / "rec")],
        ["export", "--arch", "sm90", "-o", str(out / "tables" / "sm90.json")],
    ):
        command = [sys.executable, "-m", "tuning_registry", "--db", f"sqlite:///{out / 'cold.db'}", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(f"registry {arguments[0]}:", done.stderr.strip().replace("\n", " | "), flush=True)
        if done.returncode:
            raise SystemExit(done.returncode)
    return out / "tables"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="Folder for the recording, the table and result.json.")
    parser.add_argument("--keys", type=int, default=45, help="Number of keys to launch.")
    parser.add_argument("--candidates", type=int, default=2, help="Candidates of each key that are recorded.")
    parser.add_argument("--recorders", type=int, default=5, help="Processes that record.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit-s", type=float, default=600, help="Start no round that would end later than this.")
    parser.add_argument("--fake", action="store_true", help="Compile for a GPU that does not exist.")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        logging.basicConfig(level=logging.DEBUG)
        print(json.dumps(work(asked.keys, asked.candidates, asked.fake)))
        return
    if asked.out is None:
        parser.error("OUT is missing")
    shutil.rmtree(asked.out, ignore_errors=True)
    (asked.out / "rec").mkdir(parents=True)
    out = asked.out.resolve()
    arguments = ["--keys", str(asked.keys), "--candidates", str(asked.candidates), *(["--fake"] if asked.fake else [])]
    arch = {"TUNING_REGISTRY_ARCH": "sm90"} if asked.fake else {}
    began = time.perf_counter()

    def record(rank: int) -> None:
        process(f"record-{rank}", arguments, out / "cache-record", TUNING_REGISTRY_MODE="record", RANK=str(rank),
                TUNING_REGISTRY_RECORD_PATH=str(out / "rec" / "rec"), WORLD_SIZE=str(asked.recorders), **arch)  # fmt: skip

    with ThreadPoolExecutor(asked.recorders) as pool:
        list(pool.map(record, range(asked.recorders)))
    pinned = {"TUNING_REGISTRY_MODE": "pinned", "TUNING_REGISTRY_TABLE_PATH": str(table_of(out)), **arch}
    off = {**pinned, "TUNING_REGISTRY_COMPILE_AHEAD": "0"}
    runs: dict[str, list[dict[str, Any]]] = {}
    round_s = 0.0
    for number in range(asked.rounds):
        since = time.perf_counter()
        if number and since + round_s > began + asked.limit_s:
            break
        cold = [("ahead", out / f"cache-ahead-{number}", pinned), ("plain", out / f"cache-plain-{number}", off)]
        warm = [("warm-off", out / f"cache-ahead-{number}", off), ("warm", out / f"cache-ahead-{number}", pinned)]
        plans = [cold[0], warm[0], cold[1], warm[1]] if number % 2 == 0 else [cold[1], cold[0], warm[1], warm[0]]
        for name, cache, variables in plans:
            runs.setdefault(name, []).append(process(name, arguments, cache, **variables))
        round_s = time.perf_counter() - since
    seconds = {name: statistics.median(run["process_s"] for run in found) for name, found in runs.items()}
    result = {
        "ahead_over_warm": round(seconds["ahead"] / seconds["warm-off"], 2),
        "plain_over_warm": round(seconds["plain"] / seconds["warm-off"], 2),
        "median_process_s": seconds,
        "launches_compiled": {name: [run["compiled"] for run in found] for name, found in runs.items()},
        "cores": len(os.sched_getaffinity(0)),
        "runs": runs,
    }
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({name: value for name, value in result.items() if name != "runs"}))


if __name__ == "__main__":
    main()
