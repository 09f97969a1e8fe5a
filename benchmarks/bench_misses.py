#!/usr/bin/env python3
"""Measure the cost of a key that nobody recorded: the rule for unseen keys against the static estimate and the best.

Examples:
  bench_misses.py [FILE...]                # recordings, gzip or plain; defaults to the one in benchmarks/data
  bench_misses.py FILE... --fresh FILE...  # also measures the keys that only the second files have

Needs no GPU: the files have the time of every candidate for every key, so a choice is scored by looking up its time. A
key is left out, a table is made of the others, and each method chooses a candidate:

  evidence  the rule, with the slowdowns of all candidates on the recorded keys, as `export` writes them
  winners   the rule, with the winners alone, as in a table without evidence
  min_cost  the candidate with the lowest static estimate

The score is the time of the chosen candidate divided by that of the fastest one; 1 is the best possible. If a candidate
failed for a key, the next choice counts. Timing is noisy, so even the right choice scores above 1: "timed again" is the
score of a candidate that one process timed as the fastest, by the times of another process on the other GPU. Candidates
are in the order of their parameters, since a recording sorts them by text.

Some kernels are reserved for a final test. Only --final measures them, and then only them. If the rule is changed after
looking at their results, they no longer test it.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from tuning_registry.wording import count_of

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
    """One key that was left out, and the score of each method's choice."""

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
    """Candidates by static estimate, then by their parameters."""

    def order(text: str) -> tuple[tuple[int, int], str, list[tuple[str, int, str]]]:
        config = load_config(text)
        values = [(name, value, "") if type(value) is int else (name, 0, str(value))
                  for name, value in config["kwargs"].items()]  # fmt: skip
        return static_estimate(SimpleNamespace(**config)), "", values

    return sorted(texts, key=order)


def misses(recorded: Mapping[str, ByConfig], asked: Mapping[str, ByConfig], kernel: str) -> Iterator[Miss]:
    """The score of each method's choice for the asked keys, given the recorded ones."""
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


def show(title: str, found: Sequence[Miss], *, by_kernel: bool, verbose: bool) -> None:
    """Print a table: geometric mean and worst of each method, per kernel and in total."""
    if not found:
        print(f"\n## {title}\nno keys")
        return
    print(f"\n## {title}\n")
    print("| kernel | keys | " + " | ".join(f"{method} | worst" for method in METHODS) + " |")
    print("| --- |" + " ---: |" * (1 + 2 * len(METHODS)))
    names = sorted({miss.kernel for miss in found}) if by_kernel else []
    for name in names:
        print(row(bare_name(name), [miss for miss in found if miss.kernel == name]))
    print(row("all", found))
    print()
    for method in METHODS:
        low, high = interval(found, method)
        over = sum(miss.ratios[method] > WORST for miss in found)
        print(f"{method}: 95 % interval of the mean {low:.3f} to {high:.3f}; {count_of(over, 'key')} above {WORST}")
    if verbose:
        for miss in sorted(found, key=lambda miss: -miss.ratios["evidence"])[:15]:
            print({method: round(ratio, 2) for method, ratio in miss.ratios.items()}, bare_name(miss.kernel), miss.key)


def row(name: str, found: Sequence[Miss]) -> str:
    figures = (f"{mean(values):.3f} | {max(values):.2f}"
               for values in ([miss.ratios[method] for miss in found] for method in METHODS))  # fmt: skip
    return f"| {name} | {len(found)} | " + " | ".join(figures) + " |"


def show_halves(kernels: Kernels, rounds: int) -> None:
    """Print the spread over random halves: median and range of the mean and of the worst score."""
    samples = [leave_half_out(kernels, seed) for seed in range(rounds)]
    print(f"\n## Half of the keys left out, {count_of(rounds, 'round')}: median (lowest to highest)\n")
    print("| method | mean | worst |\n| --- | --- | --- |")
    for method in METHODS:
        ratios = [[miss.ratios[method] for miss in sample] for sample in samples]
        cells = (sorted(map(figure, ratios)) for figure in _FIGURES)
        print(
            f"| {method} | "
            + " | ".join(f"{statistics.median(c):.3f} ({c[0]:.3f} to {c[-1]:.3f})" for c in cells)
            + " |"
        )


def timed_again(files: Sequence[Path]) -> list[float]:
    """The scores of each key's fastest candidate, chosen by one recording and scored by another one."""
    ranks = [read([file]) for file in files]
    return [
        two[kernel][key].get(min(medians, key=lambda text: (medians[text], text)), math.inf) / min(two[kernel][key].values())
        for one, two in itertools.permutations(ranks, 2)
        for kernel, keys in one.items()
        for key, medians in keys.items()
        if medians != two.get(kernel, {}).get(key, medians)  # equal ones were copied
    ]  # fmt: skip


def show_noise(files: Iterable[Path], *, final: bool) -> None:
    """Print how far the times of one candidate spread, how many candidates lie within that, and the result of `timed_again`."""
    widths: list[float] = []
    rivals: list[int] = []
    for file in files:
        for kernels in recording(file).timings.values():
            for kernel, keys in kernels.items():
                for timed in keys.values() if (bare_name(kernel) in FINAL) == final else ():
                    times = [three for three in timed.times_ms if three and three[0] > 0]
                    widths += [(p80 - p20) / 2 / median for median, p20, p80 in times]
                    slowest = min(times)[2] if times else 0.0
                    rivals.append(sum(median <= slowest for median, _, _ in times))
    print(f"\n## Noise\n\nhalf of the range from the 20th to the 80th percentile of a candidate: {100 * statistics.median(widths):.1f} % "
          f"(median); candidates within the range of the fastest one: {statistics.fmean(rivals):.1f} per key")  # fmt: skip
    again = [ratio for ratio in timed_again(EXAMPLES) if ratio < math.inf]
    print(f"examples/h200, timed again: {mean(again):.3f}, worst {max(again):.2f}, "
          f"{sum(ratio > WORST for ratio in again)} of {len(again)} above {WORST}")  # fmt: skip


_FIGURES: Final[tuple[Callable[[Sequence[float]], float], ...]] = (mean, max)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=SHIPPED)
    parser.add_argument("--fresh", nargs="+", type=Path, default=[], help="Recordings of other keys of these kernels.")
    parser.add_argument("--rounds", type=int, default=20, help="Number of random halves.")
    parser.add_argument(
        "--final", action="store_true", help="Measure only the kernels that are reserved for a final test."
    )
    parser.add_argument("--verbose", action="store_true", help="Also print the worst keys.")
    parser.add_argument("--json", type=Path, help="Write every miss to this file.")
    options = parser.parse_args()
    began = time.perf_counter()
    kernels = {kernel: keys for kernel, keys in read(options.files).items()
               if (bare_name(kernel) in FINAL) == options.final}  # fmt: skip
    print(f"{count_of(len(kernels), 'kernel')}, {count_of(sum(map(len, kernels.values())), 'key')}, "
          f"{sum(len(c) for keys in kernels.values() for c in keys.values())} times")  # fmt: skip
    show_noise(options.files, final=options.final)
    found = leave_one_out(kernels)
    show("One key left out", found, by_kernel=True, verbose=options.verbose)
    show_halves(kernels, options.rounds)
    if options.fresh:
        fresh = read(options.fresh)
        new = [miss for kernel, keys in kernels.items() if kernel in fresh
               for miss in misses(keys, {k: v for k, v in fresh[kernel].items() if k not in keys}, kernel)]  # fmt: skip
        show("Fresh keys", new, by_kernel=True, verbose=options.verbose)
        found = [*found, *new]
    if options.json:
        options.json.write_text(json.dumps([{"kernel": m.kernel, "key": m.key, **m.ratios} for m in found], indent=1))
    print(f"\n{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
