"""The page as text: its size, its policy, its pictures."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import re
from pathlib import Path

import pytest

from tests.conftest import H200, config, version_2, write_recording
from tuning_registry.db.store import Store
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest_in_memory
from tuning_registry.operations.reports.page.gather import gather_report
from tuning_registry.rendering.html.layout import render_page
from tuning_registry.rendering.html.svg import STRIP_WIDTH, Grid, place_of

DAY = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def recordings() -> Store:
    return ingest_in_memory([str(H200)], IngestOptions(run="july", triton="3.6.0"))


@pytest.fixture(scope="module")
def page(recordings: Store) -> str:
    return render_page(gather_report(recordings, Selection()), DAY)


def test_the_page_of_the_shipped_recordings_is_small_and_its_script_smaller(page: str) -> None:
    assert len(page.encode()) < 200_000
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script.encode()) < 15_000


def test_the_same_report_gives_the_same_page(recordings: Store, page: str) -> None:
    assert render_page(gather_report(recordings, Selection()), DAY) == page
    assert "Generated on 2026-12-01 12:00 UTC" in page


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(page: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    hashes = {}
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        hashes[tag] = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r'<[^>]+ (style|on\w+)="', page)
    assert set(re.findall(r'(?:href|src)="([^"]?)', page)) == {"#"}


def test_the_page_answers_what_people_ask(page: str) -> None:
    text = re.sub(r"<[^>]+>", "", page)
    assert "Ranks disagree on 12 of 45 entries" in text
    assert (
        "_chunk_cumsum_bwd_kernel chunk_size=128 nheads=128 f32 f32 bf16 f32 f32 bf16 f32 f32. The elected config is 77.2 %"
        in text
    )
    assert "Elected: BLOCK_SIZE_H=16 num_warps=4 num_stages=3" in text
    assert "ranks 0, 1: 5 of 45 votes each" in text
    assert "9near-ties within the noise" in text.replace(" near-ties", "near-ties")
    assert "Leave-one-out test on 40 recorded keys" in text


def test_nothing_recorded_is_a_page_too(tmp_path: Path) -> None:
    write_recording(tmp_path / "rec.rank0.json", {"sm90": {"k": {"M=1": config()}}})
    store = ingest_in_memory([str(tmp_path)])
    assert "No entries" in render_page(gather_report(store, Selection(kernel="other")), DAY)
    assert "All ranks agree on 1 entry" in render_page(gather_report(store, Selection()), DAY)


def test_many_ranks_share_a_column_with_their_host(tmp_path: Path) -> None:
    for rank in range(300):
        votes = {"sm90": {"k": {"M=1": config(B=8 if rank % 3 else 16)}}}
        document = version_2(votes, rank, rank=rank, host=f"node{rank // 50}" if rank else "node0")
        write_recording(tmp_path / f"rec.rank{rank}.json", document)
    page = render_page(gather_report(ingest_in_memory([str(tmp_path)]), Selection()), DAY)
    (names,) = re.findall(r'data-names="([^"]*)"', page)
    assert names.count("50 ranks") == 6
    heat = page[page.index('id="heat-map"') : page.index('id="costs"')]
    assert heat.count("M11 0v11") == 1  # two thirds of the first host chose A
    assert "200 : 100" in heat


def test_without_hosts_many_ranks_are_one_bar(tmp_path: Path) -> None:
    for rank in range(300):
        votes = {"sm90": {"k": {"M=1": config(B=8 if rank % 3 else 16)}}}
        write_recording(tmp_path / f"rec.rank{rank}.json", version_2(votes, rank, rank=rank))
    page = render_page(gather_report(ingest_in_memory([str(tmp_path)]), Selection()), DAY)
    heat = page[page.index('id="heat-map"') : page.index('id="costs"')]
    assert re.findall(r'<rect class="(\w)" x="([\d.]+)" width="([\d.]+)"', heat.split("<tbody>")[1]) == [
        ("a", "0", "212.3"),
        ("b", "213.3", "105.7"),
    ]


def test_a_page_of_very_many_entries_says_what_it_leaves_out(tmp_path: Path) -> None:
    keys = {f"M={number}": config() for number in range(2100)}
    for rank in range(2):
        votes = {"sm90": {"k": keys | ({"M=2099": config(B=8)} if rank else {})}}
        write_recording(tmp_path / f"rec.rank{rank}.json", votes)
    page = render_page(gather_report(ingest_in_memory([str(tmp_path)]), Selection()), DAY)
    assert "Ranks disagree on 1 of 2,100 entries" in page
    assert "show 2,000 of 2,100 entries: those with the largest share of dissenting votes" in page
    assert page.count("<details") == 2000
    assert page.count("M=2099</span>") > 1


def test_a_row_of_the_heat_map_merges_neighbours_and_leaves_out_who_did_not_vote() -> None:
    grid = Grid([[number] for number in range(6)])
    row = grid.row(bytes([1, 1, 2, 0, 1, 3]))
    assert '<path class="a" d="M0 8h44M88 8h22"/>' in row
    assert '<path class="b" d="M44 8h22"/>' in row
    assert '<text x="11 33 55 99 121" y="12">AABAC</text>' in row


def test_times_beyond_the_scale_are_on_its_edge() -> None:
    assert (place_of(0.01), place_of(1e9)) == (0, STRIP_WIDTH)
    assert 0 < place_of(1.0) < place_of(1.5) < place_of(3.0) < STRIP_WIDTH
