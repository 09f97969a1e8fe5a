#!/usr/bin/env python3
"""Make many recordings with votes drawn at random from the eight real ones.

usage: make_recordings.py RANKS COPIES FOLDER [--timings]

Each file holds the real entries COPIES times; an additional value in the key distinguishes the copies. Every vote is the
choice of a real rank, drawn with a fixed seed. COPIES=11 gives 485 entries, because a few keys begin with a dtype and
are not copied. With --timings, each recording gets a `timings.rank<N>.json` with the timings of the rank that was
drawn.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

REAL = Path(__file__).resolve().parent.parent / "examples" / "h200"


def make_recordings(ranks: int, copies: int, folder: Path, *, timings: bool = False) -> None:
    """Write `rec.rank0.json` ... into `folder`, and `timings.rank0.json` ... if `timings` is set."""
    rng = random.Random(2026)
    real: list[dict[str, Any]] = [json.loads(path.read_text()) for path in sorted(REAL.glob("rec.rank*.json"))]
    timed: list[dict[str, Any]] = [json.loads(path.read_text()) for path in sorted(REAL.glob("timings.rank*.json"))]
    slots = [
        (arch, kernel, key, name)
        for arch, kernels in real[0].items()
        for kernel, entries in kernels.items()
        for key in entries
        for name in copied_names(key, copies)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        recording: dict[str, dict[str, dict[str, Any]]] = {}
        measured: dict[str, dict[str, dict[str, Any]]] = {}
        for arch, kernel, key, name in slots:
            drawn = rng.randrange(len(real))
            recording.setdefault(arch, {}).setdefault(kernel, {})[name] = real[drawn][arch][kernel][key]
            measured.setdefault(arch, {}).setdefault(kernel, {})[name] = timed[drawn][arch][kernel][key]
        (folder / f"rec.rank{rank}.json").write_text(json.dumps(recording, indent=1, sort_keys=True))
        if timings:
            (folder / f"timings.rank{rank}.json").write_text(json.dumps(measured))


def copied_names(key: str, copies: int) -> list[str]:
    """The key and its copies: `...|L=3|torch...` before the first bfloat16 argument, if it has one."""
    head, mark, tail = key.partition("torch.bf")
    return [key, *(f"{head}L={copy}|{mark}{tail}" for copy in range(1, copies) if mark)]


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--timings"]
    make_recordings(int(words[0]), int(words[1]), Path(words[2]), timings="--timings" in sys.argv)
