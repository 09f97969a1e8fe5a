#!/usr/bin/env python3
"""The baseline: merge and report in memory, with the standard library and without a database.

usage: baseline.py FOLDER

Reads every recording, counts the votes for each canonical text and elects winners. Then reads all of them again and
lists the disagreements, as a script over rank files would. Prints the seconds of both halves as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

DEFAULTS = {"num_ctas": 1, "maxnreg": None, "ir_override": None}
Votes = dict[tuple[str, str, str], Counter[str]]


def count(paths: list[Path]) -> Votes:
    counted: Votes = {}
    for path in paths:
        for arch, kernels in json.loads(path.read_text()).items():
            for kernel, entries in kernels.items():
                for key, config in entries.items():
                    text = json.dumps({**DEFAULTS, **config}, sort_keys=True)
                    counted.setdefault((arch, kernel, key), Counter())[text] += 1
    return counted


def main() -> None:
    paths = sorted(Path(sys.argv[1]).glob("*.json"))
    start = time.perf_counter()
    winners = {
        entry: json.loads(min(votes.items(), key=lambda item: (-item[1], item[0]))[0])
        for entry, votes in sorted(count(paths).items())
    }
    merged = time.perf_counter()
    split = [entry for entry, votes in count(paths).items() if len(votes) > 1]
    done = time.perf_counter()
    print(json.dumps({"merge_s": merged - start, "report_s": done - merged, "entries": len(winners),
                      "disagreements": len(split)}))  # fmt: skip


if __name__ == "__main__":
    main()
