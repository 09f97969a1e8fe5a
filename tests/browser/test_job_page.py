"""The page of a pinned job in a real Chromium."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.conftest import AXE, Opened, need
from tests.conftest import config
from tuning_registry.model.canonical import dump_json
from tuning_registry.runtime.choices import Choice
from tuning_registry.runtime.job.place import Place
from tuning_registry.runtime.misses import Miss
from tuning_registry.runtime.page import JobReport, render_page
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.runtime.triton.coverage import COMPILED, CoverageReport

Visit = Callable[..., Opened]

EVIL = """"><img src=x onerror=alert(1)><script>alert(2)</script></style>'&amp;{{7*7}}\x1b[31m\u202e"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A job with everything that the page shows, under names that come from outside."""
    kernel = f"pkg.{EVIL}"
    keys = [f"M={size}|torch.float32|{EVIL}" for size in (64, 8, 512)]
    choices = [Choice("sm90", kernel, key, dump_json(config(B=16)), "table") for key in keys]
    choices.append(Choice("sm90", kernel, "M=9", dump_json(config(B=32)), "nearest", nearest=keys[1]))
    misses = (
        Miss("sm90", kernel, "M=9", "no key", "nearest", keys[1]),
        Miss("sm90", "other", "", "unsupported key", "error"),
    )
    coverage = CoverageReport({kernel: "pinned"}, ((EVIL, COMPILED),), misses, {EVIL: 3})
    report = JobReport(
        AutotunePolicy(mode="pinned", source=EVIL),
        Place(0, 8),
        (("Table for sm90", EVIL),),
        tuple(choices),
        "ab" * 32,
        coverage,
        (("Run", EVIL), ("Triton", "3.6.0"), ("PyTorch", "")),
    )
    file = tmp_path / "job.html"
    file.write_text(render_page(report, dt.datetime(2026, 12, 1, tzinfo=dt.UTC)))
    return file


def test_hostile_names_stay_text_and_nothing_is_loaded(visit: Visit, page: Path) -> None:
    opened = visit(page)
    opened.tab.on("dialog", lambda dialog: opened.messages.append("dialog"))
    opened.tab.wait_for_timeout(200)
    assert opened.requests == [opened.url]
    assert opened.messages == []
    assert opened.run("() => [document.images.length, document.scripts.length]") == [0, 1]
    assert opened.run("() => [...document.querySelectorAll('nav a')].every(a => document.querySelector(a.hash))")
    for anchor in ("summary", "misses", "not-covered", "pinned", "job"):
        assert "<img src=x onerror=alert(1)>" in str(opened.tab.text_content(f"#{anchor}")), anchor


def test_headings_sort_and_the_theme_changes(visit: Visit, page: Path) -> None:
    opened = visit(page, color_scheme="light")
    opened.tab.locator("#misses").get_by_role("button", name="Reason").click()
    reasons = "() => [...document.querySelectorAll('#misses tbody tr')].map(r => r.cells[3].textContent)"
    assert opened.run(reasons) == ["no key", "unsupported key"]
    opened.tab.locator("#misses").get_by_role("button", name="Reason").click()
    assert opened.run(reasons) == ["unsupported key", "no key"]
    opened.tab.get_by_role("button", name="Theme").click()
    assert opened.run("() => getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert opened.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_no_fault_and_a_phone_scrolls_only_inside_tables(
    visit: Visit, page: Path, scheme: str, width: int
) -> None:
    need(AXE.is_file(), "axe-core (make build/axe.min.js)")
    opened = visit(page, color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    assert opened.run("() => document.documentElement.scrollWidth") <= width
    opened.tab.add_script_tag(path=AXE)
    script = "async () => (await axe.run({resultTypes: ['violations']})).violations.map(v => [v.id, v.nodes[0].html])"
    assert opened.run(script) == []
