#!/usr/bin/env python3
"""Measure the cold start of flash-linear-attention's kernels, autotuned and pinned, in new processes.

Examples:
  fla_cold_start.py            # runs the comparison; needs a GPU, fla and the packages of the registry command
  fla_cold_start.py --work     # runs the kernels once: prints seconds, timings taken, misses and a checksum

Two ranks record, each with a separate compile cache. Their recordings are ingested and a table is exported. Then two
new processes run pinned to the table, and two run with stock Triton, each from an empty compile cache.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined, no-any-return"
# (Triton, torch and fla have no types, or are not installed.)

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def work() -> dict[str, Any]:
    """Run the kernels once and a second time, counting what Triton times."""
    sys.path.insert(0, str(ROOT))
    import torch
    from fla.modules.norm.l2norm import l2norm
    from fla.modules.norm.layernorm import rms_norm
    from fla.ops.retention import chunk_retention
    from triton.runtime.autotuner import Autotuner

    from tuning_registry.runtime import active_policy, choice_digest, coverage_report, install

    timed: set[tuple[str, str]] = set()
    bench = Autotuner._bench  # noqa: SLF001  # the one function that takes timings

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        timed.add((self.base_fn.__name__, str(kwargs["config"])))
        return bench(self, *args, **kwargs)

    Autotuner._bench = counting  # noqa: SLF001  # and this counts them
    if os.environ.get("TUNING_REGISTRY_MODE"):
        install()
    torch.manual_seed(0)
    start = time.perf_counter()
    digest = hashlib.sha256()

    def step() -> None:
        for width in (64, 256):
            x = torch.randn(1024, 8, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            y = l2norm(x)
            y.backward(torch.randn_like(x))
            weight = torch.ones(width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            z = rms_norm(x.detach().requires_grad_(), weight, None)
            z.sum().backward()
            for tensor in (y, x.grad, z):
                digest.update(tensor.detach().float().cpu().numpy().tobytes())
        q, k, v = (torch.randn(2, 512, 4, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        o, _ = chunk_retention(q, k, v)
        digest.update(o.float().cpu().numpy().tobytes())

    step()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    step()
    torch.cuda.synchronize()
    policy = active_policy()
    report = coverage_report()
    return {
        "mode": policy.mode if policy else "stock",
        "seconds": round(first, 2),
        "timed": len(timed),
        "kernels": len(report.reached),
        "misses": [str(miss) for miss in report.misses],
        "not_covered": len(report.not_covered),
        "outputs": digest.hexdigest()[:16],
        "choices": choice_digest()[:16] if policy else "",
    }


def process(folder: Path, name: str, **variables: str) -> dict[str, Any]:
    """Run one process with a fresh compile cache; return what it printed."""
    environment = os.environ | variables | {"TRITON_CACHE_DIR": str(folder / f"cache-{name}"), "PYTHONPATH":
                                            f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}  # fmt: skip
    environment["FLA_CACHE_RESULTS"] = "0"  # fla would keep its results on disk, and copy them to every rank
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--work"], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name}: exit {done.returncode}\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["process_seconds"] = round(time.perf_counter() - start, 1)
    if "WARNING" in done.stderr or "tuning_registry" in done.stderr:
        found["said"] = [line for line in done.stderr.splitlines() if "tuning_registry" in line][:5]
    print(name, json.dumps(found), flush=True)
    return found


def registry(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "tuning_registry", "--db", str(folder / "r.db"), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print("registry", arguments[0], done.stderr.strip().replace("\n", " | "), flush=True)
    if done.returncode:
        raise SystemExit(done.returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", action="store_true")
    if parser.parse_args().work:
        print(json.dumps(work()))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rank in ("0", "1"):
            process(folder, f"record-{rank}", TUNING_REGISTRY_MODE="record", TUNING_REGISTRY_RUN="fla", RANK=rank,
                    WORLD_SIZE="2", TUNING_REGISTRY_RECORD_PATH=str(folder / "rec"))  # fmt: skip
        registry(folder, "ingest", *map(str, sorted(folder.glob("rec*.json"))))
        registry(folder, "disagreements")
        registry(folder, "export", "--arch", "sm90", "-o", str(folder / "sm90.json"))
        pinned = {"TUNING_REGISTRY_MODE": "pinned", "TUNING_REGISTRY_TABLE_PATH": str(folder)}
        runs = [process(folder, f"pinned-{i}", **pinned) for i in range(2)]
        stock = [process(folder, f"stock-{i}") for i in range(2)]
        print(json.dumps({
            "pinned_s": [run["seconds"] for run in runs], "stock_s": [run["seconds"] for run in stock],
            "pinned_timed": [run["timed"] for run in runs], "stock_timed": [run["timed"] for run in stock],
            "pinned_outputs_equal": len({run["outputs"] for run in runs}) == 1,
            "stock_outputs_equal": len({run["outputs"] for run in stock}) == 1,
            "pinned_choices_equal": len({run["choices"] for run in runs}) == 1,
        }))  # fmt: skip


if __name__ == "__main__":
    main()
