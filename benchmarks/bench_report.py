#!/usr/bin/env python3
"""Measure the page of a big fleet: how long it takes to make, its size, and how fast Chromium opens and filters it.

usage: bench_report.py [RANKS [COPIES]]     (1,024 and 11: 485 entries)

"Queries" is what the report asks: how ranks compare (`registry ranks`), all votes, and all timings.
"""

from __future__ import annotations

import datetime as dt
import shutil
import sys
import tempfile
import time
from pathlib import Path

from make_recordings import make_recordings

from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import elect_entries
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.reports.page.gather import gather_report
from tuning_registry.operations.reports.ranks import compare_ranks
from tuning_registry.rendering.html.layout import render_page

_FILTER = """words => {
    const field = document.getElementById("filter");
    const times = words.map(word => {
        const start = performance.now();
        field.value = word;
        field.dispatchEvent(new Event("input", {bubbles: true}));
        document.body.offsetHeight;
        return performance.now() - start;
    });
    return Math.max(...times);
}"""


def measure(ranks: int, copies: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_recordings(ranks, copies, folder / "in", timings=True)
        store = Store(parse_url(f"sqlite:///{folder}/registry.db"))
        ingest(store, [str(folder / "in")], IngestOptions(run="fleet", triton="3.6.0"))
        start = time.process_time()
        ask(store)
        queries_s = time.process_time() - start
        start = time.process_time()
        report = gather_report(store, Selection())
        gathering_s = time.process_time() - start
        start = time.process_time()
        page = render_page(report, dt.datetime.now(dt.UTC))
        rendering_s = time.process_time() - start
        print(f"{report}")
        print(
            f"CPU: queries {queries_s:.1f} s; gathering, with them, {gathering_s:.1f} s; rendering {rendering_s:.1f} s"
        )
        print(f"page: {len(page.encode()) / 1e6:.2f} MB")
        file = folder / "report.html"
        file.write_text(page)
        measure_in_browser(file)


def ask(store: Store) -> None:
    compare_ranks(store, Selection())
    with store.reading() as reading:
        election = elect_entries(reading, Selection(), every_choice=True)
        for entry in election.every_entry:
            election.votes.timings_by_config(entry.shape)


def measure_in_browser(file: Path) -> None:
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        start = time.perf_counter()
        tab.goto(file.as_uri())
        opening_s = time.perf_counter() - start
        slowest_ms = tab.evaluate(_FILTER, ["l2norm", "l2norm L=3", "no such kernel", "", "cumsum", ""])
        print(f"Chromium: opened in {opening_s:.2f} s; the slowest of six filters took {slowest_ms:.0f} ms")
        browser.close()


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    measure(*(numbers + [1024, 11][len(numbers) :]))
