"""The page in a real Chromium: what it loads, filters, sorts, links and prints, and whether everybody can use it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.browser.conftest import AXE, Opened, need, write_page
from tests.conftest import config, version_2, write_recording
from tuning_registry.cli.app import app

Visit = Callable[..., Opened]

EVIL = """"><img src=x onerror=alert(1)><script>alert(2)</script></style>'&amp;{{7*7}}\x1b[31m\u202e"""
RUN = EVIL.replace("/", "")  # with a slash, --against means a file


def test_the_page_loads_nothing_but_itself_and_says_nothing(visit: Visit, page: Path) -> None:
    opened = visit(page)
    opened.tab.wait_for_timeout(200)
    assert opened.requests == [opened.url]
    assert opened.messages == []
    assert opened.tab.title().startswith("Autotune report")


def test_the_policy_blocks_other_scripts_styles_and_requests(visit: Visit, page: Path) -> None:
    opened = visit(page)
    opened.run(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            const image = document.createElement("img");
            image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
            const styled = document.createElement("p");
            styled.setAttribute("style", "color: rgb(1, 2, 3)");
            styled.id = "styled";
            document.body.append(script, image, styled);
        }"""
    )
    opened.tab.wait_for_timeout(200)
    assert opened.run("() => window.hacked") is None
    assert opened.run("() => getComputedStyle(document.getElementById('styled')).color") != "rgb(1, 2, 3)"
    blocked = "\n".join(opened.messages)
    for directive in ("script-src", "style-src", "default-src 'none'"):
        assert directive in blocked


def test_the_filter_narrows_every_view(visit: Visit, page: Path) -> None:
    opened = visit(page)
    assert (opened.shown(".heat tbody tr"), opened.shown("#costs tbody tr"), opened.shown("details")) == (45, 12, 45)
    opened.tab.fill("#filter", "l2norm D=128")
    assert (opened.shown(".heat tbody tr"), opened.shown("#costs tbody tr"), opened.shown("details")) == (2, 2, 2)
    assert opened.tab.text_content("#count") == "2 of 45 entries"
    opened.tab.fill("#filter", "no such kernel")
    assert opened.shown(".heat tbody tr") == 0
    opened.tab.fill("#filter", "")
    opened.tab.uncheck("input[value=unanimous]")
    assert opened.shown(".heat tbody tr") == opened.shown("details") == 12
    opened.tab.uncheck("input[value=near-tie]")
    assert opened.shown("#costs tbody tr") == 3
    assert opened.messages == []


def column(opened: Opened, table: str, number: int) -> list[str]:
    script = "([t, n]) => [...document.querySelectorAll(t + ' tbody tr')].map(r => r.children[n].textContent.trim())"
    found: list[str] = opened.run(script, [table, number])
    return found


def test_a_heading_sorts_its_table_and_a_second_press_reverses_it(visit: Visit, page: Path) -> None:
    opened = visit(page)
    ranks = opened.tab.locator("#fleet th", has_text="Rank").first.get_by_role("button")
    dissent = opened.tab.get_by_role("button", name="Dissenting votes")
    dissent.click()
    assert [text.split()[0] for text in column(opened, "#fleet", 2)] == ["5", "5", "3", "3", "3", "1", "1", "1"]
    dissent.click()
    assert [text.split()[0] for text in column(opened, "#fleet", 2)] == ["1", "1", "1", "3", "3", "3", "5", "5"]
    assert opened.tab.locator("#fleet th[aria-sort]").get_attribute("aria-sort") == "ascending"
    ranks.click()
    assert column(opened, "#fleet", 0) == [str(rank) for rank in reversed(range(8))]


def test_a_link_opens_its_entry_with_and_without_the_script(visit: Visit, page: Path) -> None:
    opened = visit(page)
    assert opened.shown("details[open]") == 12
    link = opened.tab.locator(".heat tbody a").last
    anchor = str(link.get_attribute("href"))
    link.click()
    entry = opened.tab.locator(f"details{anchor}")
    assert entry.get_attribute("open") is not None
    assert entry.locator("table").is_visible()
    box = entry.bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 900
    again = visit(page, anchor)
    assert again.tab.locator(f"details{anchor}").locator("table").is_visible()
    plain = visit(page, anchor, java_script_enabled=False)
    assert plain.tab.locator(f"details{anchor} summary").is_visible()
    assert plain.tab.locator(".filters").is_hidden()  # what does nothing is not shown


def test_the_links_of_entries_are_the_same_on_every_page(page: Path, tmp_path: Path) -> None:
    narrowed = write_page(page.parent / "registry.db", tmp_path / "narrow.html", "--kernel", "*norm*").read_text()
    anchors = set(re.findall(r'<details id="(e-\w+)"', narrowed))
    assert len(anchors) == 16
    assert anchors < set(re.findall(r'<details id="(e-\w+)"', page.read_text()))


def test_dark_and_light_follow_the_system_and_the_button(visit: Visit, page: Path) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light, dark = visit(page, color_scheme="light"), visit(page, color_scheme="dark")
    assert light.run(ground) == "rgb(255, 255, 255)"
    assert dark.run(ground) != "rgb(255, 255, 255)"
    for opened in (light, dark):
        before = opened.run(ground)
        opened.tab.get_by_role("button", name="Theme").click()
        assert opened.run(ground) != before
        opened.tab.get_by_role("button", name="Theme").click()
        assert opened.run(ground) == before


def test_paper_has_every_entry_open_and_no_controls(visit: Visit, page: Path) -> None:
    opened = visit(page)
    assert opened.tab.pdf().startswith(b"%PDF")
    assert opened.shown("details[open]") == 12
    opened.run("() => dispatchEvent(new Event('beforeprint'))")
    opened.tab.emulate_media(media="print")
    assert opened.shown("details[open]") == 45
    assert not opened.tab.locator(".filters").is_visible()
    assert not opened.tab.locator("header").is_visible()
    cut = "() => [...document.querySelectorAll('.scroll')].filter(e => e.scrollHeight > e.clientHeight + 2).length"
    assert opened.run(cut) == 0
    opened.run("() => dispatchEvent(new Event('afterprint'))")
    assert opened.shown("details[open]") == 12


def test_the_keyboard_is_enough(visit: Visit, page: Path) -> None:
    opened = visit(page)
    focused = "() => document.activeElement.textContent || document.activeElement.id"
    opened.tab.keyboard.press("Tab")
    assert opened.run(focused) == "Skip to content"
    for _ in range(8):
        opened.tab.keyboard.press("Tab")
    reached = opened.run("() => document.activeElement.id")
    assert reached == "theme"
    opened.tab.focus("#filter")
    opened.tab.keyboard.type("l2norm")
    assert opened.shown(".heat tbody tr") == 8
    opened.tab.focus(".heat thead button")
    opened.tab.keyboard.press("Enter")
    assert opened.tab.locator(".heat th[aria-sort]").count() == 1
    opened.tab.locator("details:not([hidden]) summary").last.focus()
    before = opened.shown("details[open]")
    opened.tab.keyboard.press("Enter")
    assert opened.shown("details[open]") != before


def test_the_pointer_names_rank_and_config(visit: Visit, page: Path) -> None:
    opened = visit(page)
    picture = opened.tab.locator(".heat tbody td.map svg").first
    picture.scroll_into_view_if_needed()
    picture.hover(position={"x": 50, "y": 8})
    assert opened.tab.text_content("#tip") == "rank 2: C BLOCK_SIZE_H=1"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_no_fault(visit: Visit, fleet_page: Path, scheme: str, width: int) -> None:
    need(AXE.is_file(), "axe-core (make build/axe.min.js)")
    opened = visit(fleet_page, color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    opened.tab.add_script_tag(path=AXE)
    script = "async () => (await axe.run({resultTypes: ['violations']})).violations.map(v => [v.id, v.nodes[0].html])"
    assert opened.run(script) == []


def test_every_view_is_there(visit: Visit, fleet_page: Path) -> None:
    opened = visit(fleet_page)
    views = opened.run("() => [...document.querySelectorAll('section')].map(s => s.id)")
    assert views == ["verdict", "heat-map", "costs", "entries", "fleet", "gaps", "unseen", "changes", "origin"]
    assert opened.run("() => [...document.querySelectorAll('nav a')].every(a => document.querySelector(a.hash))")
    captions = opened.run("() => [...document.querySelectorAll('section > .scroll caption')].map(c => c.textContent)")
    assert {"Hosts", "Ranks", "Misses of pinned jobs", "Stale entries", "Environments before and now"} <= set(captions)
    assert opened.run(
        "() => [...document.querySelectorAll('table')].every(t => t.caption && t.querySelector('th[scope]'))"
    )


def test_a_phone_scrolls_only_inside_tables(visit: Visit, page: Path) -> None:
    opened = visit(page, viewport={"width": 400, "height": 900})
    assert opened.run("() => document.documentElement.scrollWidth") <= 400


def test_hostile_names_stay_text(visit: Visit, tmp_path: Path) -> None:
    """Kernels, keys, configs, runs, hosts and sources come from outside."""
    for rank, block in enumerate((16, 8, 16)):
        votes = {"sm90": {f"pkg.{EVIL}": {f"M={EVIL}|torch.float32": config(**{f"B{EVIL}".upper(): block})}}}
        fields = {"run": RUN, "host": f"host{EVIL}", "source": EVIL, "triton": EVIL, "packages": {EVIL: EVIL}}
        timed = [[config(**{f"B{EVIL}".upper(): one}), [1.0 * one, 0.9 * one, 1.1 * one]] for one in (8, 16, 32)]
        timings = {"sm90": {f"pkg.{EVIL}": {f"M={EVIL}|torch.float32": timed}}}
        document = version_2(votes, rank + 1, rank=rank, timings=timings, **fields)
        write_recording(tmp_path / "in" / f"rec.rank{rank}.json", json.dumps(document))
    database = tmp_path / "evil.db"
    done = CliRunner().invoke(app, ["--db", str(database), "ingest", str(tmp_path / "in")])
    assert done.exit_code == 0, done.output
    page = write_page(database, tmp_path / "evil.html", "--against", RUN)
    opened = visit(page)
    opened.tab.on("dialog", lambda dialog: opened.messages.append("dialog"))
    opened.tab.wait_for_timeout(200)
    assert opened.requests == [opened.url]
    assert opened.messages == []
    assert opened.run("() => document.images.length") == 0
    assert opened.run("() => document.scripts.length") == 1
    assert "<img src=x onerror=alert(1)>" in str(opened.tab.text_content("#entries"))
    assert not set("\x1b\u202e") & set(page.read_text())
    opened.tab.locator(".heat tbody td.map svg").first.hover(position={"x": 5, "y": 8})
    assert "<img src=x" in str(opened.tab.text_content("#tip"))
    assert opened.run("() => document.images.length") == 0
