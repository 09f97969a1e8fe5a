#!/usr/bin/env python3
"""What the first launch of a key costs on the host if the table does not have it, and what preparing for it costs.

    python benchmarks/bench_first_miss.py [--keys 10000] [--candidates 64]

Needs Triton; its kernels are fake, so nothing is compiled and only host code is measured, anywhere. Makes a table with
many keys of one kernel, with evidence on all candidates. Prints the seconds of reading and preparing it, then the
milliseconds of the first launch of a key: one that the table has (hit), one that it does not have under each on_miss
(of the same keys), and the same launch by stock Triton if its cache already knows the key (which times nothing either).
Times are CPU time of the launching thread, so other work on the machine disturbs them less.
"""

# ruff: noqa: E402, ARG005 - the package is found first; fakes take what Triton passes

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton comes without types, or not at all.)

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import triton
from triton.runtime import Autotuner

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tuning_registry.formats.table import read_table, table_bytes, table_payload
from tuning_registry.formats.table_evidence import encode_evidence
from tuning_registry.model.canonical import live_config_text, load_config
from tuning_registry.rules import unseen_keys
from tuning_registry.runtime import install, uninstall

ARCH = "sm999"
KERNEL = "_body"
NAMES = ["x", "y", "M", "N", "K", "CAUSAL"]


def _body() -> None:
    """The function that gives the fake kernel its name."""


class FakeKernel:
    """Replaces a compiled kernel."""

    fn = staticmethod(_body)

    def run(self, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> None:
        """Launch nothing."""


class Tensor:
    """Has a dtype, as a key needs it."""

    dtype = "torch.bfloat16"


def candidates(count: int) -> list[Any]:
    """Configs that differ in two sizes, warps and stages."""
    return [triton.Config({"BLOCK_M": 16 << i % 4, "BLOCK_N": 16 << i // 4 % 4}, num_warps=1 << i // 16 % 4, num_stages=1 + i // 64)
            for i in range(count)]  # fmt: skip


def drawn(dice: random.Random, count: int, taken: set[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Key values that were not drawn before: batch sizes vary freely, the others as those of models."""
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        values = (
            dice.randrange(1, 65536),
            dice.choice((64, 128, 1024, 4096)),
            dice.randrange(1, 8192),
            dice.random() < 0.5,
        )
        if values not in taken:
            taken.add(values)
            found.append(values)
    return found


def key_of(values: Sequence[Any]) -> str:
    """The text of a key."""
    fields = (f"{name}={value}" for name, value in zip(NAMES[2:], values, strict=True))
    return "|".join([*fields, Tensor.dtype, Tensor.dtype])


def write_table(folder: Path, keys: Sequence[tuple[Any, ...]], configs: Sequence[Any], dice: random.Random) -> Path:
    """A table with evidence on every candidate of every key."""
    texts = [live_config_text(config) or "" for config in configs]
    rows: dict[str, dict[str, int]] = {}
    for values in keys:
        row = {text: dice.randrange(200) for text in texts}
        rows[key_of(values)] = {**row, dice.choice(texts): 0}
    entries = {key: load_config(min(row, key=lambda text: (row[text], text))) for key, row in rows.items()}
    extra = {"evidence": encode_evidence({f"{__name__}.{KERNEL}": rows})}
    path = folder / f"{ARCH}.json"
    path.write_bytes(table_bytes(table_payload(ARCH, {f"{__name__}.{KERNEL}": entries}, extra=extra)))
    return path


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its CPU seconds."""
    began = time.thread_time()
    return call(), time.thread_time() - began


def first_launches(
    configs: Sequence[Any], keys: Sequence[tuple[Any, ...]], *, is_known: bool = False
) -> dict[str, float]:
    """Milliseconds of the first launch of each key.

    Args:
        configs: The kernel's candidates.
        keys: Key values.
        is_known: Fill Triton's cache before.
    """
    kernel = Autotuner(
        FakeKernel(), NAMES, list(configs), NAMES[2:], None, None, do_bench=lambda call, quantiles: [1.0] * 3
    )
    x, y = Tensor(), Tensor()
    if is_known:
        for values in keys:
            kernel[(1,)](x, y, *values)
    times = sorted(timed(lambda values=values: kernel[(1,)](x, y, *values))[1] for values in keys)
    return {name: round(1e3 * times[int(share * (len(times) - 1))], 3)
            for name, share in (("median_ms", 0.5), ("p95_ms", 0.95), ("max_ms", 1.0))}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--asked", type=int, default=500, help="how many keys are launched")
    options = parser.parse_args()
    dice, taken = random.Random(1), set[tuple[Any, ...]]()
    configs = candidates(options.candidates)
    keys, asked = drawn(dice, options.keys, taken), drawn(dice, options.asked, taken)
    with tempfile.TemporaryDirectory() as folder:
        path = write_table(Path(folder), keys, configs, dice)
        table, read_s = timed(lambda: read_table(path))
        _, prepared_s = timed(lambda: unseen_keys.prepare(table))
        figures: dict[str, Any] = {"keys": options.keys, "candidates": options.candidates, "file_mb": round(path.stat().st_size / 1e6, 1),
                                   "read_s": round(read_s, 3), "prepared_s": round(prepared_s, 3),
                                   "stock": first_launches(configs, asked, is_known=True)}  # fmt: skip
        for on_miss in ("nearest", "min_cost"):
            install(mode="pinned", arch=ARCH, table_path=path, on_miss=on_miss)
            first_launches(configs, keys[:1])  # reads the table
            while any(thread.name == "tuning_registry keys" for thread in threading.enumerate()):
                time.sleep(0.01)
            figures[on_miss] = first_launches(configs, asked)
            if on_miss == "nearest":
                figures["hit"] = first_launches(configs, keys[1 : options.asked + 1])
            uninstall()
    print(json.dumps(figures))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main()
