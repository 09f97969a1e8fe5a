#!/usr/bin/env python3
"""What a launch costs whose key nobody recorded: the rule for unseen keys, the cheapest estimate, and the best possible.

usage: bench_misses.py                           # the recording in benchmarks/data; about a minute, needs no GPU
       bench_misses.py FILE...                   # other recordings, gzip or plain
       bench_misses.py FILE... --fresh FILE...   # also: keys of the second files that the first do not have
       bench_misses.py --kernel matmul --rounds 2    # some kernels and few rounds: seconds

Every candidate's time on every key is in the files, so a choice is scored by looking its time up. Keys are taken out, a
table is made of the others, and each method chooses for the keys that were taken out:

  evidence  the rule with the slowdowns of all candidates on the recorded keys (what `export` writes)
  winners   the rule with the winners alone (a table without evidence)
  min_cost  the candidate of the least static estimate

A figure is the time of the chosen candidate over that of the fastest one, as a geometric mean over keys: 1 is the best.
A candidate that failed on a key gives way to the next choice. Timings are noisy, so even a process that times the key
itself does not reach 1: "timed again" is what such a process got by the times of a process on the next GPU.

Every figure has its spread: one key left out, the 95 % interval over resampled sets of keys; half of the keys left out,
the least and the most over random halves. Candidates are in the order of their parameters, since a recording sorts them
by text.

Ten kernels are reserved: the rule was developed on the others and tested on them once. Use `--kernels development` while
you change the rule; a rule that was changed after a look at the reserved ones has no test any more.
"""

# ruff: noqa: E402 - the package is found first

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tuning_registry.formats.recordings import parse_recording
from tuning_registry.model.canonical import load_config
from tuning_registry.model.names import bare_name
from tuning_registry.model.records import Recording, Times
from tuning_registry.model.slowdowns import slowdowns_of
from tuning_registry.rules.evidence import median_of_medians
from tuning_registry.rules.nearest import RecordedKeys
from tuning_registry.runtime.pinning.decision import static_estimate

SHIPPED: Final = sorted((ROOT / "benchmarks" / "data").glob("*.json.gz"))
EXAMPLES: Final = sorted((ROOT / "examples" / "h200").glob("timings.rank*.json"))
FINAL: Final = frozenset({
    "attention_forward", "batched_matmul", "column_sums", "stencil", "bias_gelu", "layer_norm_bwd_kernel",
    "chunk_scaled_dot_kkt_fwd_kernel", "causal_conv1d_fwd_kernel", "softmax_fwd_kernel",
    "fused_recurrent_hgrn_fwd_kernel",
})  # fmt: skip
METHODS: Final = ("evidence", "winners", "min_cost")
BOOTSTRAPS: Final = 1000
WORST: Final = 1.25  # keys that cost more are counted

ByConfig = Mapping[str, float]  # milliseconds by canonical text, infinite for a candidate that failed
Kernels = dict[str, dict[str, ByConfig]]


@dataclass(frozen=True, slots=True)
class Miss:
    """One key that was taken out, and the time of each method's choice over the best."""

    kernel: str
    key: str
    ratios: Mapping[str, float]


def recording(file: Path) -> Recording:
    """The recording in a file, which may be compressed."""
    data = file.read_bytes()
    return parse_recording(gzip.decompress(data) if file.suffix == ".gz" else data, str(file))


def read(files: Iterable[Path]) -> Kernels:
    """Milliseconds by kernel, key and candidate: the median over the recordings that timed it."""
    times: dict[str, dict[str, dict[str, dict[int, Times | None]]]] = {}
    for rank, file in enumerate(files):
        for kernels in recording(file).timings.values():
            for kernel, keys in kernels.items():
                for key, timed in keys.items():
                    by_config = times.setdefault(kernel, {}).setdefault(key, {})
                    for text, three in zip(timed.configs, timed.times_ms, strict=True):
                        by_config.setdefault(text, {})[rank] = three
    found: Kernels = {}
    for kernel, entries in times.items():
        for key, candidates in entries.items():
            medians = {text: median_of_medians(by_rank) for text, by_rank in candidates.items()}
            if len(medians) > 1 and min(medians.values()) < math.inf:
                found.setdefault(kernel, {})[key] = medians
    return found


def table(keys: Mapping[str, ByConfig]) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The winners and the slowdowns in percent that a table of these keys would hold."""
    winners, slowdowns = {}, {}
    for key, medians in keys.items():
        fastest = min(medians.values())
        winners[key] = min(text for text, ms in medians.items() if ms == fastest)
        slowdowns[key] = slowdowns_of(medians)
    return winners, slowdowns


def cheapest_first(texts: Iterable[str]) -> list[str]:
    """Candidates by static estimate, of equal ones by their parameters."""

    def order(text: str) -> tuple[tuple[int, int], str, list[tuple[str, int, str]]]:
        config = load_config(text)
        values = [(name, value, "") if type(value) is int else (name, 0, str(value))
                  for name, value in config["kwargs"].items()]  # fmt: skip
        return static_estimate(SimpleNamespace(**config)), "", values

    return sorted(texts, key=order)


def misses(recorded: Mapping[str, ByConfig], asked: Mapping[str, ByConfig], kernel: str) -> Iterator[Miss]:
    """What each method's choice costs on the asked keys, knowing the recorded ones."""
    winners, slowdowns = table(recorded)
    with_evidence, without = RecordedKeys(winners, slowdowns), RecordedKeys(winners)
    for key, medians in asked.items():
        candidates = cheapest_first(medians)
        best = min(medians.values())
        orders = (with_evidence.rank(key, candidates).candidates, without.rank(key, candidates).candidates, candidates)
        yield Miss(kernel, key, {method: next(medians[text] for text in order if medians[text] < math.inf) / best
                                 for method, order in zip(METHODS, orders, strict=True)})  # fmt: skip


def leave_one_out(kernels: Kernels) -> list[Miss]:
    return [miss for kernel, keys in kernels.items() if len(keys) > 1 for key in keys
            for miss in misses({other: keys[other] for other in keys if other != key}, {key: keys[key]}, kernel)]  # fmt: skip


def leave_half_out(kernels: Kernels, seed: int) -> list[Miss]:
    dice = random.Random(seed)
    found: list[Miss] = []
    for kernel, keys in kernels.items():
        if len(keys) > 1:
            kept = set(dice.sample(sorted(keys), len(keys) // 2))
            found += misses(
                {key: keys[key] for key in kept}, {key: keys[key] for key in keys if key not in kept}, kernel
            )
    return found


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def interval(found: Sequence[Miss], method: str) -> tuple[float, float]:
    """The 95 % bootstrap interval of the geometric mean, keys resampled within their kernels."""
    dice = random.Random(1)
    logs: dict[str, list[float]] = {}
    for miss in found:
        logs.setdefault(miss.kernel, []).append(math.log(miss.ratios[method]))
    means = sorted(
        math.exp(statistics.fmean(value for each in logs.values() for value in dice.choices(each, k=len(each))))
        for _ in range(BOOTSTRAPS)
    )
    return means[BOOTSTRAPS // 40], means[-BOOTSTRAPS // 40]


def show(title: str, found: Sequence[Miss], *, verbose: bool) -> None:
    """Print a table: geometric mean and worst of each method, per kernel and in total."""
    print(f"\n## {title}\n")
    if not found:
        print("no keys")
        return
    print("| kernel | keys | " + " | ".join(f"{method} | worst" for method in METHODS) + " |")
    print("| --- |" + " ---: |" * (1 + 2 * len(METHODS)))
    for name in sorted({miss.kernel for miss in found}):
        print(row(bare_name(name), [miss for miss in found if miss.kernel == name]))
    print(row("all", found))
    print()
    for method in METHODS:
        low, high = interval(found, method)
        over = sum(miss.ratios[method] > WORST for miss in found)
        print(f"{method}: 95 % interval of the mean {low:.3f} to {high:.3f}; {over} of {len(found)} keys above {WORST}")
    if verbose:
        for miss in sorted(found, key=lambda miss: -miss.ratios["evidence"])[:15]:
            print({method: round(ratio, 2) for method, ratio in miss.ratios.items()}, bare_name(miss.kernel), miss.key)


def row(name: str, found: Sequence[Miss]) -> str:
    figures = (f"{mean(values):.3f} | {max(values):.2f}"
               for values in ([miss.ratios[method] for miss in found] for method in METHODS))  # fmt: skip
    return f"| {name} | {len(found)} | " + " | ".join(figures) + " |"


def show_halves(group: str, kernels: Kernels, rounds: int) -> list[str]:
    """Print the spread over random halves, and return the medians: mean and worst of each method."""
    samples = [leave_half_out(kernels, seed) for seed in range(rounds)]
    print(f"\n## {group}: half of the keys left out, {rounds} times\n")
    print("| method | mean: median (least to most) | worst key: median (least to most) |\n| --- | --- | --- |")
    medians: list[str] = []
    for method in METHODS:
        ratios = [[miss.ratios[method] for miss in sample] for sample in samples]
        means, worst = sorted(map(mean, ratios)), sorted(map(max, ratios))
        cells = (f"{statistics.median(c):.3f} ({c[0]:.3f} to {c[-1]:.3f})" for c in (means, worst))
        print(f"| {method} | " + " | ".join(cells) + " |")
        medians.append(f"{statistics.median(means):.3f}, {statistics.median(worst):.2f}")
    return medians


def timed_again(files: Sequence[Path]) -> list[float]:
    """The time of each key's fastest candidate over the best, chosen by one recording and scored by another one."""
    ranks = [read([file]) for file in files]
    return [
        two[kernel][key].get(min(medians, key=lambda text: (medians[text], text)), math.inf) / min(two[kernel][key].values())
        for one, two in itertools.permutations(ranks, 2)
        for kernel, keys in one.items()
        for key, medians in keys.items()
        if medians != two.get(kernel, {}).get(key, medians)  # equal ones were copied
    ]  # fmt: skip


def show_noise(files: Iterable[Path], kernels: Kernels) -> str:
    """Print how wide the times of one candidate are, and how many candidates that leaves; return "timed again"."""
    widths: list[float] = []
    rivals: list[int] = []
    for file in files:
        for recorded in recording(file).timings.values():
            for keys in (keys for kernel, keys in recorded.items() if kernel in kernels):
                for timed in keys.values():
                    times = [three for three in timed.times_ms if three and three[0] > 0]
                    widths += [(p80 - p20) / 2 / median for median, p20, p80 in times]
                    slowest = min(times)[2] if times else 0.0
                    rivals.append(sum(median <= slowest for median, _, _ in times))
    print(f"\n## Noise\n\nhalf of the 20th-80th percentile range of one candidate: {100 * statistics.median(widths):.1f} % "
          f"(median); candidates within the fastest one's range: {statistics.fmean(rivals):.1f} a key")  # fmt: skip
    again = [ratio for ratio in timed_again(EXAMPLES) if ratio < math.inf]
    print(f"timed again, keys of examples/h200: {mean(again):.3f}, worst {max(again):.2f}; "
          f"{sum(ratio > WORST for ratio in again)} of {len(again)} above {WORST}")  # fmt: skip
    return f"{mean(again):.3f}, {max(again):.2f}"


def show_summary(lines: Iterable[Sequence[str]]) -> None:
    """Print the mean and the worst key of each method side by side."""
    print("\n## Summary: geometric mean, worst key\n")
    print("| kernels | left out | keys | " + " | ".join(METHODS) + " | timed again |")
    print("| --- | --- | ---: |" + " ---: |" * (len(METHODS) + 1))
    for line in lines:
        print("| " + " | ".join(line) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=SHIPPED)
    parser.add_argument("--fresh", nargs="+", type=Path, default=[], help="recordings of other keys of these kernels")
    parser.add_argument("--rounds", type=int, default=20, help="how many random halves")
    parser.add_argument("--kernels", choices=("development", "reserved", "both"), default="both")
    parser.add_argument("--kernel", action="append", help="only kernels of this function name; may be repeated")
    parser.add_argument("--verbose", action="store_true", help="also the worst keys")
    parser.add_argument("--json", type=Path, help="write every miss to this file")
    options = parser.parse_args()
    began = time.perf_counter()
    every = {kernel: keys for kernel, keys in read(options.files).items()
             if not options.kernel or bare_name(kernel) in options.kernel}  # fmt: skip
    fresh = read(options.fresh)
    found: list[Miss] = []
    summary: list[Sequence[str]] = []
    noise = ""
    for group in ("development", "reserved") if options.kernels == "both" else (options.kernels,):
        kernels = {
            kernel: keys for kernel, keys in every.items() if (bare_name(kernel) in FINAL) == (group == "reserved")
        }
        if not kernels:
            continue
        print(f"\n# {group}: {len(kernels)} kernels, {sum(map(len, kernels.values()))} keys, "
              f"{sum(len(c) for keys in kernels.values() for c in keys.values())} times")  # fmt: skip
        noise = show_noise(options.files, kernels)
        new = [miss for kernel, keys in kernels.items() if kernel in fresh
               for miss in misses(keys, {k: v for k, v in fresh[kernel].items() if k not in keys}, kernel)]  # fmt: skip
        for what, group_misses in (("one key", leave_one_out(kernels)), ("fresh keys", new)):
            if group_misses:
                show(f"{group}: {what} left out", group_misses, verbose=options.verbose)
                cells = [f"{mean(values):.3f}, {max(values):.2f}"
                         for values in ([miss.ratios[method] for miss in group_misses] for method in METHODS)]  # fmt: skip
                summary.append((group, what, str(len(group_misses)), *cells, noise))
                found += group_misses
        halves = show_halves(group, kernels, options.rounds)
        summary.append((group, "half of the keys", f"{options.rounds} halves", *halves, noise))
    show_summary(summary)
    if options.json:
        options.json.write_text(json.dumps([{"kernel": m.kernel, "key": m.key, **m.ratios} for m in found], indent=1))
    print(f"\n{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
