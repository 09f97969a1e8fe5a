"""What the jobs of `run.py` computed, compared bit by bit, and the table of it."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "triton", "fla-core")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    found: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        found["gpus"] = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        found["gpus"] = "unknown"
    return found


def summary(folder: Path, count: int) -> dict[str, Any]:
    """What the ranks of a job wrote, and the figures of the table."""
    ranks = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(count)]
    if not all(math.isfinite(float.fromhex(loss)) for rank in ranks for loss in rank["losses"]):
        raise ValueError("a loss is not finite, so equal bits would prove nothing")
    logs = "\n".join((folder / f"rank{rank}.log").read_text(errors="replace") for rank in range(count))
    return {
        "first_step_s": max(rank["first_step_s"] for rank in ranks),
        "median_step_ms": round(statistics.median(statistics.median(rank["step_ms"]) for rank in ranks), 2),
        "last_losses": [rank["losses"][-1] for rank in ranks],
        "parameters_sha256": [rank["parameters_sha256"] for rank in ranks],
        "log": [line for line in logs.splitlines() if line.startswith("tuning_registry: ")],
        "ranks": ranks,
    }


def compared(jobs: Mapping[str, dict[str, Any]], one: str, other: str) -> dict[str, Any]:
    """Whether two jobs computed the same: each rank's losses step by step, and the parameters after the last step."""
    found: dict[str, Any] = {"jobs": [one, other], "equal": None}
    if "ranks" not in jobs.get(one, {}) or "ranks" not in jobs.get(other, {}):
        return found
    pairs = list(zip(jobs[one]["ranks"], jobs[other]["ranks"], strict=True))
    firsts = [next((step for step, (a, b) in enumerate(zip(first["losses"], second["losses"], strict=True), 1) if a != b), None)
              for first, second in pairs]  # fmt: skip
    return {
        **found,
        "first_different_step": firsts,
        "equal_losses": [sum(a == b for a, b in zip(first["losses"], second["losses"], strict=True))
                         for first, second in pairs],
        "steps": len(pairs[0][0]["losses"]),
        "equal_parameters": [first["parameters_sha256"] == second["parameters_sha256"] for first, second in pairs],
        "equal": all(first["losses"] == second["losses"] and first["parameters_sha256"] == second["parameters_sha256"]
                     for first, second in pairs),
    }  # fmt: skip


def report(results: Mapping[str, Any]) -> str:
    """The results as text."""
    about = results["machine"]
    lines = [f"{about['gpus']}; " + ", ".join(f"{name} {about[name]}" for name in ("python", *PACKAGES)), "",
             f"{'JOB':<10}{'FIRST STEP s':>14}{'MEDIAN STEP ms':>16}  {'LAST LOSS, RANK 0':<22}PARAMETERS"]  # fmt: skip
    for name in sorted(results["jobs"], key=lambda name: name not in {"stock-1", "stock-2"}):
        job = results["jobs"][name]
        if "ranks" in job:
            digests = " ".join(sorted({digest[:12] for digest in job["parameters_sha256"]}))
            lines.append(
                f"{name:<10}{job['first_step_s']:>14.1f}{job['median_step_ms']:>16.2f}  {job['last_losses'][0]:<22}{digests}"
            )
        if "error" in job:
            lines.append(f"{name:<10}  {job['error'].splitlines()[0][:200]}")
    recorded = results["jobs"].get("recorded", {})
    if "entries" in recorded:
        lines += [
            "",
            f"{recorded['disagreements']} of {recorded['entries']} recorded entries disagree between the ranks",
        ]
    lines += ["", f"{'COMPARED':<24}{'RANK 0 DIFFERS FROM':<22}{'RANK 1 DIFFERS FROM':<22}PARAMETERS"]
    for pair in results["comparisons"]:
        if pair["equal"] is None:
            continue
        firsts = ["no step" if step is None else f"step {step}" for step in pair["first_different_step"]]
        same = "equal" if all(pair["equal_parameters"]) else "different"
        lines.append(f"{' / '.join(pair['jobs']):<24}{firsts[0]:<22}{firsts[1]:<22}{same}")
    return "\n".join(lines) + "\n"
