#!/usr/bin/env python3
"""Measure the ingest of other tools' files, and queries about votes with and without them in the database.

Prints CPU seconds of this process, the least of five: other work on the machine counts less than in elapsed time.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.model.origins import Dimension
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import find_disagreements
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.reports.between import compare_sources
from tuning_registry.operations.reports.explain import explain
from tuning_registry.operations.reports.inventory import list_kernels

ROOT = Path(__file__).resolve().parents[1]
QUERIES: dict[str, Callable[[Store], object]] = {
    "winners": lambda store: find_winners(store, Selection()),
    "winners --arch sm90": lambda store: find_winners(store, Selection(arch="sm90")),
    "disagreements": lambda store: find_disagreements(store, Selection()),
    "kernels": lambda store: list_kernels(store, Selection()),
    "explain --kernel '*chunk_cumsum*'": lambda store: explain(store, Selection(arch="sm90", kernel="*chunk_cumsum*")),
}


def make_files(folder: Path, number: int) -> None:
    """That many tables, half of them vLLM's and half SGLang's, copies of real ones for other shapes."""
    for tool in ("vllm", "sglang"):
        sources = sorted((ROOT / "tests" / "data" / "tools" / tool).rglob("*device_name=*.json"))
        (folder / tool).mkdir(parents=True)
        for place in range(number // 2):
            source = sources[place % len(sources)]
            name = source.name.replace("device_name=", f"copy={place},device_name=")
            (folder / tool / name).write_bytes(source.read_bytes())


def least(run: Callable[[], object], times: int = 5) -> float:
    seconds = []
    for _ in range(times):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000, help="number of files (default 2000)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder / "files", given.files)
        plain, mixed = (Store(parse_url(f"sqlite:///{folder}/{one}.db")) for one in ("plain", "mixed"))
        for store in (plain, mixed):
            ingest(store, ROOT / "examples" / "h200", IngestOptions(run="july", triton="3.6.0"))
        print(f"ingest of {given.files:,} files: {least(lambda: ingest(mixed, folder / 'files'), 1):.1f} s")
        print(f"the same again: {least(lambda: ingest(mixed, folder / 'files'), 1):.1f} s")
        compared = least(lambda: compare_sources(mixed, Selection(), Dimension.SOURCE), 1)
        print(f"disagreements --between source: {compared:.2f} s")
        for query, ask in QUERIES.items():
            without, beside = (1000 * least(functools.partial(ask, store)) for store in (plain, mixed))
            print(f"{query}: {without:.0f} ms without these files, {beside:.0f} ms with them")


if __name__ == "__main__":
    main()
