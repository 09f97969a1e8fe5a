#!/usr/bin/env python3
"""No figures: the shipped table still pins the kernels that it was made from. Needs a GPU (sm90) and fla.

usage: shipped_table.py FOLDER            # writes FOLDER/shipped.json; exit status 1 if anything differs
       shipped_table.py FOLDER --quick    # records one width and one chunk size

Ingests `examples/h200` anew and compares the digest of its export with the one below. Then two ranks on one GPU launch
the kernels in that table: pinned (every launch a hit, ranks agree, equal outputs), and recorded (the ranks' keys are keys of
the table). The kernels are those of flash-linear-attention and, if it can be imported, mamba_ssm (see mamba_work.py).
"""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call, attr-defined, no-any-return, misc"
# (Triton, torch and fla come without types, or not at all.)

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

DIGEST = "53e442cea86a9d6c"  # of the kernels in the table of `examples/h200`
WIDTHS = (64, 128, 256, 1024)
CHUNKS = ((128, 128), (256, 64))  # positions of a chunk, heads
ROWS = 32768  # gives the NB of the recorded keys


def work(widths: list[int]) -> dict[str, Any]:
    """Launch the kernels under the environment's policy, as one of two ranks; what was chosen and computed."""
    import torch
    import torch.distributed as dist
    from fla.modules.norm.l2norm import l2norm
    from fla.modules.norm.layernorm import rms_norm
    from mamba_work import chunk_scan, has_mamba

    from tuning_registry.runtime import choice_log, coverage_report, install, uninstall, verify_choices

    policy = install()
    dist.init_process_group("gloo")
    began = time.perf_counter()
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    digest = hashlib.sha256()
    for width in widths:
        x, w = torch.randn(ROWS, width, dtype=torch.bfloat16), torch.randn(width, dtype=torch.bfloat16)
        for launch in (lambda a, _: l2norm(a), lambda a, b: rms_norm(a, b, None)):
            a, b = x.to(device).requires_grad_(), w.to(device).requires_grad_()
            out = launch(a, b)
            out.backward(torch.ones_like(out))
            for tensor in (out, a.grad, b.grad):
                if tensor is not None:
                    digest.update(tensor.detach().float().cpu().numpy().tobytes())
    gradients = hashlib.sha256()
    for chunk, heads in CHUNKS[: 1 if len(widths) == 1 else None] if has_mamba() else ():
        result, *leaves = chunk_scan(chunk, heads)
        digest.update(result.detach().float().cpu().numpy().tobytes())
        for tensor in leaves:
            gradients.update(tensor.float().cpu().numpy().tobytes())
    seconds = time.perf_counter() - began
    agreement = verify_choices()
    report = coverage_report()
    found = {
        "mode": policy.mode, "seconds": round(seconds, 2), "outputs": digest.hexdigest(),
        "mamba": has_mamba(), "mamba_gradients": gradients.hexdigest(),
        "keys": sorted((choice.kernel, choice.key) for choice in choice_log()),
        "sources": sorted({choice.source for choice in choice_log()}), "misses": [str(miss) for miss in report.misses],
        "faults": dict(report.faults), "compared": agreement.compared, "disagreements": len(agreement.disagreements),
    }  # fmt: skip
    uninstall()
    dist.destroy_process_group()
    return found


def two_ranks(folder: Path, widths: tuple[int, ...], limit_s: float, **variables: str) -> list[dict[str, Any]]:
    """Run `work` in two processes with a Triton cache each; what they found, or the end of their errors."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    processes = []
    for rank in range(2):
        environment = os.environ | {
            "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "TRITON_CACHE_DIR": str(folder / f"cache-{variables['TUNING_REGISTRY_MODE']}-{rank}"), "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", **variables,
        }  # fmt: skip
        command = [sys.executable, __file__, str(folder), "--work", ",".join(map(str, widths))]
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    found, deadline = [], time.monotonic() + limit_s
    for process in processes:
        try:
            out, err = process.communicate(timeout=max(1, deadline - time.monotonic()))
            found.append(json.loads(out.splitlines()[-1]) if process.returncode == 0 else {"error": err[-2000:]})
        except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
            process.kill()
            found.append({"error": f"{type(error).__name__}: {error}"})
    return found


def fresh_table(folder: Path) -> dict[str, Any]:
    """The table of the recordings in `examples/h200`, ingested and exported anew as `make tables` does."""
    registry = [sys.executable, "-m", "tuning_registry", "--db", f"sqlite:///{folder / 'h200.db'}"]
    target = folder / "table" / "sm90.json"
    target.parent.mkdir()
    for command in (["ingest", "examples/h200", "--run", "h200-2026-07", "--triton", "3.6.0", "--package",
                     "flash-linear-attention=0.6.0"], ["export", "--arch", "sm90", "-o", str(target)]):  # fmt: skip
        done = subprocess.run([*registry, *command], cwd=ROOT, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"registry {command[0]} failed with exit status {done.returncode}: {done.stderr}")
    table: dict[str, Any] = json.loads(target.read_text())
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--limit-s", type=float, default=120, help="seconds for each pair of ranks")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work([int(width) for width in options.work.split(",")])))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    recorded_widths = (64,) if options.quick else WIDTHS
    with tempfile.TemporaryDirectory(prefix="shipped-table-") as name:
        folder = Path(name)
        table = fresh_table(folder)
        keys = {(kernel, key) for kernel, entries in table["kernels"].items() for key in entries}
        pinned = two_ranks(folder, WIDTHS, options.limit_s, TUNING_REGISTRY_MODE="pinned", TUNING_REGISTRY_ON_MISS="error",
                           TUNING_REGISTRY_TABLE_PATH=str(folder / "table"))  # fmt: skip
        recorded = two_ranks(folder, recorded_widths, options.limit_s, TUNING_REGISTRY_MODE="record", TUNING_REGISTRY_RUN="again",
                             TUNING_REGISTRY_RECORD_PATH=str(folder / "rec"))  # fmt: skip
    good = all("error" not in rank for rank in (*pinned, *recorded))
    checks = {
        "digest": table["tuning_registry"]["digest"].startswith(DIGEST),
        "ran": good,
        "pinned: every launch is a hit": good and all(
            rank["sources"] == ["table"] and not rank["misses"] and len(rank["keys"]) >= 4 * len(WIDTHS) for rank in pinned),
        "pinned: every key of the table, if mamba_ssm is there": good and all(
            {tuple(key) for key in rank["keys"]} == keys or not rank["mamba"] for rank in pinned),
        "pinned: the ranks agree": good and all(
            rank["compared"] == len(rank["keys"]) and not rank["disagreements"] for rank in pinned),
        "pinned: equal outputs": good and pinned[0]["outputs"] == pinned[1]["outputs"],
        "recorded: keys of the table": good and all(
            len(rank["keys"]) >= 4 * len(recorded_widths) and {tuple(key) for key in rank["keys"]} <= keys for rank in recorded),
        "no faults": good and not any(rank["faults"] for rank in (*pinned, *recorded)),
    }  # fmt: skip
    result = {"checks": checks, "digest": table["tuning_registry"]["digest"], "pinned": pinned, "recorded": recorded}
    (options.folder / "shipped.json").write_text(json.dumps(result, indent=1) + "\n")
    for check, holds in checks.items():
        print(f"{'ok  ' if holds else 'FAIL'} {check}", flush=True)
    for rank in (*pinned, *recorded):
        print(json.dumps({name: value for name, value in rank.items() if name != "keys"})[:600], flush=True)
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
