#!/usr/bin/env python3
"""Audits on a GPU: what they find, what they cost, and whether the job computes what it would have computed.

usage: bench_audit.py FOLDER            # all parts, each in processes with a time limit; about five minutes
       bench_audit.py FOLDER --work PART  # what such a process does

Writes results.json, results.txt, the recordings, and a log for each process to FOLDER. Parts:
  own       our kernels: right ones, one with a race, one with atomics, one with a wrong tile; memory
  fla       kernels of flash-linear-attention and mamba_ssm, if it is there, recorded from empty compile caches without
            and with an audit
  seeded    the same, audited with seeded values by two processes: equal digests on equal inputs
  training  losses of a small training without a policy, recorded, and recorded with an audit
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined, no-any-return"
# (Triton, torch and fla come without types, or not at all.)

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]
LIMIT_S = 280


def own(folder: Path, audit: Any) -> dict[str, Any]:
    import audit_kernels
    import torch

    from tuning_registry.runtime import coverage_report, install, uninstall

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    install(record_path=folder / "rec", run=folder.name, audit=audit)
    before = torch.get_rng_state(), torch.cuda.get_rng_state()
    began = time.perf_counter()
    audit_kernels.launch_all()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    equal = torch.equal(before[0], torch.get_rng_state()) and torch.equal(before[1], torch.cuda.get_rng_state())
    faults = coverage_report().faults
    uninstall()
    return {"seconds": seconds, "faults": faults, "generators_unchanged": equal, "peak_bytes": _peaks(audit)}


def _peaks(audit: Any) -> dict[str, int]:
    """Largest memory while a matmul of 3 x 64 MiB is tuned, beyond its tensors, without Triton's own buffer."""
    import audit_kernels
    import torch
    import triton

    from tuning_registry.runtime import installed

    triton.runtime.Autotuner.do_bench = property(lambda _: _once, lambda *_: None)
    with installed(record_path=f"/tmp/audit-peak-{os.getpid()}/rec", run="peak", audit=audit):
        a, b = (torch.randn(4096, 4096, device="cuda") for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        c = audit_kernels.product(a, b)
        torch.cuda.synchronize()
        tensors = sum(t.numel() * 4 for t in (a, b, c))
        return {
            "tensors": tensors,
            "extra_peak": torch.cuda.max_memory_allocated() - held - c.numel() * 4,
            "left_allocated": torch.cuda.memory_allocated() - held - c.numel() * 4,
        }


_calls = 0


def _once(kernel_call: Any, quantiles: Any) -> list[float]:  # noqa: ARG001 - as Triton calls it
    """A timer for which the first candidate is the fastest, so that every process launches the same ones."""
    global _calls  # noqa: PLW0603 - a counter
    kernel_call()
    _calls += 1
    return [float(_calls)] * 3


def fla(folder: Path, audit: Any) -> dict[str, Any]:
    import torch
    from fla.modules.norm.l2norm import l2norm
    from fla.modules.norm.layernorm import rms_norm
    from fla.ops.retention import chunk_retention
    from fla.ops.utils import chunk_local_cumsum
    from mamba_work import chunk_scan, has_mamba

    from tuning_registry.runtime import coverage_report, install, uninstall

    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    began = time.perf_counter()
    install(record_path=folder / "rec", run=folder.name, audit=audit)
    parts: dict[str, Callable[[], Any]] = {
        "l2norm": lambda: l2norm(_leaf(1024, 4, 64)).backward(_leaf(1024, 4, 64).detach()),
        "rms_norm": lambda: rms_norm(_leaf(1024, 64), torch.ones(64, device="cuda", dtype=torch.bfloat16), None),
        "cumsum": lambda: chunk_local_cumsum(torch.randn(2, 512, 4, device="cuda"), 64),
        "retention": lambda: chunk_retention(*(_leaf(2, 256, 2, 64).detach() for _ in range(3))),
    }
    if has_mamba():
        parts["mamba"] = lambda: chunk_scan(128, 24, length=512)
    times, errors = {}, {}
    for name, part in parts.items():
        start = time.perf_counter()
        try:
            part()
            torch.cuda.synchronize()
        except Exception:  # noqa: BLE001 - the other parts go on
            errors[name] = traceback.format_exc()[-1500:]
        times[name] = time.perf_counter() - start
    seconds = time.perf_counter() - began
    faults = coverage_report().faults
    uninstall()
    return {"seconds": seconds, "parts": times, "errors": errors, "faults": faults}


def _leaf(*shape: int) -> Any:
    import torch

    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).requires_grad_()


def training(folder: Path, audit: Any) -> dict[str, Any]:
    import audit_kernels
    import triton

    from tuning_registry.runtime import coverage_report, install, uninstall

    triton.runtime.Autotuner.do_bench = property(lambda _: _once, lambda *_: None)
    if audit != "stock":
        install(record_path=folder / "rec", run=folder.name, audit=audit)
    losses = audit_kernels.train()
    faults = coverage_report().faults
    uninstall()
    return {"losses": losses, "faults": faults}


def audits_in(folder: Path) -> dict[str, Any]:
    """What the recordings of a folder hold about audits, by kernel and key."""
    from tuning_registry.formats.audits import read_audits
    from tuning_registry.formats.recordings import read_recording

    found: dict[str, Any] = {}
    for file in sorted(folder.glob("rec.*.json")):
        for kernels in read_audits(read_recording(file).header.extra).values():
            for kernel, keys in kernels.items():
                for key, entry in keys.items():
                    found.setdefault(f"{kernel} {key}", {})[file.name] = _shown(entry)
    return found


def _shown(entry: Any) -> dict[str, Any]:
    ran = [one for one in entry.candidates if not one.failed]
    return {
        "skipped": entry.skipped,
        "inputs": entry.inputs,
        "candidates": len(entry.candidates),
        "failed": len(entry.candidates) - len(ran),
        "classes": len(set(entry.classes.values())),
        "largest_class": sum(number == 0 for number in entry.classes.values()),
        "unstable": [one.config for one in ran if not one.repeats],
        "outside": [[one.config, one.difference] for one in ran if not one.within],
        "largest_difference": max((one.difference for one in ran), default=None),
        "digests": [one.digest for one in entry.candidates],
    }


def process(folder: Path, name: str, part: str, audit: Any, cache: Path, **variables: str) -> Any:
    """Start one part in a process; it is waited for by `answer`."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    log = (folder / f"{name}.log").open("a")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache), **variables}
    command = [sys.executable, __file__, str(folder / name), "--work", part, "--audit", json.dumps(audit)]
    file = folder / name / f"answer{variables.get('RANK', '0')}.json"
    return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment), file


def answer(started: Any) -> dict[str, Any]:
    running, file = started
    try:
        running.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        running.kill()
        return {"failed": f"more than {LIMIT_S} s"}
    return json.loads(file.read_text()) if file.exists() else {"failed": f"exit status {running.returncode}"}


def compare_seeded(found: dict[str, Any]) -> dict[str, Any]:
    """How many entries two processes audited on equal inputs, and which of those have other digests."""
    both = {name: list(ranks.values()) for name, ranks in found.items() if len(ranks) == 2}
    equal = [name for name, (one, two) in both.items() if one["inputs"] and one["inputs"] == two["inputs"]]
    unlike = [name for name in equal if both[name][0]["digests"] != both[name][1]["digests"]]
    unexplained = [name for name in unlike if not both[name][0]["unstable"] and not both[name][1]["unstable"]]
    return {"both": len(both), "equal_inputs": len(equal), "other_digests": unlike, "unexplained": unexplained}


def run_all(folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    caches = folder / "caches" if os.environ.get("KEEP_CACHES") else Path(f"/tmp/audit-caches-{os.getpid()}")
    results: dict[str, Any] = {}

    def one(name: str, part: str, audit: Any, cache: str) -> None:
        results[name] = answer(process(folder, name, part, audit, caches / cache))
        _save(folder, results)

    one("own-plain", "own", False, "own")
    one("own-audited", "own", True, "own-audited")
    results["own-found"] = audits_in(folder / "own-audited")
    for name, audit in (("training-stock", "stock"), ("training-recorded", False), ("training-audited", True)):
        one(name, "training", audit, "own-audited")
    losses = [results[f"training-{name}"].get("losses", name) for name in ("stock", "recorded", "audited")]
    results["training-equal"] = losses[0] == losses[1] == losses[2]
    one("fla-plain", "fla", False, "fla")
    one("fla-audited", "fla", True, "fla-audited")
    results["fla-found"] = audits_in(folder / "fla-audited")
    for winners in (caches / "fla-audited").rglob("*.autotune.json"):
        winners.unlink()  # fla keeps them on disk; Triton would time, and the audit run, nothing
    ranks = [process(folder, "seeded", "fla", "seeded", caches / "fla-audited", RANK=str(rank), WORLD_SIZE="2",
                     LOCAL_RANK="0", TUNING_REGISTRY_RUN="seeded") for rank in range(2)]  # fmt: skip
    results["seeded"] = [answer(rank) for rank in ranks]
    results["seeded-found"] = audits_in(folder / "seeded")
    results["seeded-compared"] = compare_seeded(results["seeded-found"])
    for name in ("own", "fla"):
        plain, audited = (results[f"{name}-{kind}"].get("seconds") for kind in ("plain", "audited"))
        results[f"{name}-time-ratio"] = audited / plain if plain and audited else None
    _save(folder, results)
    return results


def _save(folder: Path, results: dict[str, Any]) -> None:
    (folder / "results.json").write_text(json.dumps(results, indent=1))


def report(results: dict[str, Any]) -> str:
    lines = [
        *(f"{n}: {json.dumps(results[n])[:600]}" for n in ("own-plain", "own-audited", "fla-plain", "fla-audited")),
        f"time of an audited recording: own x {results['own-time-ratio']}, fla x {results['fla-time-ratio']}",
        f"losses of the training equal bit by bit: {results['training-equal']}",
        f"seeded: {json.dumps(results['seeded-compared'])}",
    ]
    for part in ("own-found", "fla-found"):
        lines.append(f"{part}: candidates, classes, largest class, failed, unstable, outside, largest difference")
        lines += [f"  {name}: {_line(one)}" for name, ranks in results[part].items() for one in ranks.values()]
    return "\n".join(lines)


def _line(found: dict[str, Any]) -> str:
    if found["skipped"]:
        return f"skipped: {found['skipped']}"
    counts = [found["candidates"], found["classes"], found["largest_class"], found["failed"]]
    return ", ".join(map(str, [*counts, len(found["unstable"]), len(found["outside"]), found["largest_difference"]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work")
    parser.add_argument("--audit", type=json.loads, default=False)
    given = parser.parse_args()
    if given.work is None:
        results = run_all(given.folder)
        text = report(results)
        (given.folder / "results.txt").write_text(text + "\n")
        print(text)
        return
    part = {"own": own, "fla": fla, "training": training}[given.work]
    result = part(given.folder, given.audit)
    (given.folder / f"answer{os.environ.get('RANK', '0')}.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
