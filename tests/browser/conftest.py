"""Chromium, driven by playwright. Where something is missing the tests are skipped, with CI set they fail."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import H200, ROOT, config, version_2, write_recording
from tuning_registry.cli.app import app

AXE = ROOT / "build" / "axe.min.js"  # `make build/axe.min.js` downloads it
_NAMES = ("chromium", "google-chrome")
_QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def need(found: Any, what: str) -> Any:
    """Skip without something that the tests need; on CI, fail."""
    if found:
        return found
    if os.environ.get("CI"):
        pytest.fail(f"CI must install {what}")
    pytest.skip(f"no {what} on this machine")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        need(None, "playwright")
    executable = need(next(filter(None, map(shutil.which, _NAMES)), None), "Chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=_QUIET.split())
        yield browser
        browser.close()


class Opened:
    """A page in a tab that has no network, with everything that it asked for or said.

    Attributes:
        tab: Playwright's page.
        requests: URLs that were asked for.
        messages: Messages of the console, and errors of scripts.
    """

    def __init__(self, browser: Any, file: Path, fragment: str = "", **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}} | options
        self.context = browser.new_context(offline=True, **options)
        self.tab = self.context.new_page()
        self.requests: list[str] = []
        self.messages: list[str] = []
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("console", lambda message: self.messages.append(message.text))
        self.tab.on("pageerror", lambda error: self.messages.append(str(error)))
        self.url = file.as_uri()
        self.tab.goto(self.url + fragment)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a JavaScript function. It runs outside the page's content security policy."""
        return self.tab.evaluate(script, *arguments)

    def shown(self, selector: str) -> int:
        """How many elements are there and not hidden."""
        count = self.run("s => [...document.querySelectorAll(s)].filter(e => !e.closest('[hidden]')).length", selector)
        return int(count)


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Open a file: `visit(file, "#costs", color_scheme="dark")`."""
    opened: list[Opened] = []

    def visit(file: Path, fragment: str = "", **options: Any) -> Opened:
        opened.append(Opened(browser, file, fragment, **options))
        return opened[-1]

    yield visit
    for one in opened:
        one.context.close()


def write_fleet(folder: Path) -> None:
    """Recordings in which everything happens that a page shows: two runs and hosts, a slow rank, misses, failures."""
    kernel, old, other = "pkg.sub.norm_kernel", "pkg.old_kernel", "pkg.rms_kernel"
    for rank in range(8):
        chosen = config(B=16) if rank in {1, 4} else config(B=32)
        keys = {f"D={size}|torch.float32": chosen if size == 64 else config(B=16) for size in (64, 128, 256)}
        speed = 1.6 if rank == 6 else 1 + rank / 1000
        timed = {
            key: [
                [config(B=block), [speed * ms, 0.98 * speed * ms, 1.02 * speed * ms]]
                for block, ms in ((8, 0.04), (16, 0.02), (32, 0.03), (64, 0.5))
            ] + [[config(B=128), None]]
            for key in keys
        }  # fmt: skip
        now = version_2(
            {"sm90": {kernel: keys, other: {"M=1": config()}}}, rank, run="july", rank=rank, host=f"node{rank // 4}",
            triton="3.6.0", device={"name": "NVIDIA H200", "arch": "sm90"}, timings={"sm90": {kernel: timed}},
            observations={"sm90": {kernel: {"D=4096|torch.float32": {"reason": "miss: no key", "config": None}}}},
            candidate_sets={"sm90": {other: {"M=1": "new" if rank else "old"}}},
        )  # fmt: skip
        before = {"sm90": {kernel: dict.fromkeys(keys, config(B=8)), old: {"M=1": config()}}}
        then = version_2(before, 100 + rank, run="june", rank=rank, host=f"node{rank // 4}", triton="3.5.0")
        write_recording(folder / "july" / f"rec.rank{rank}.json", json.dumps(now))
        write_recording(folder / "june" / f"rec.rank{rank}.json", json.dumps(then))


def write_page(database: Path, page: Path, *options: object) -> Path:
    """The page of a database, by the command."""
    done = CliRunner().invoke(app, ["--db", str(database), "report", "--html", str(page), *map(str, options)])
    assert done.exit_code == 0, done.output
    return page


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the shipped recordings."""
    folder = tmp_path_factory.mktemp("page")
    database = folder / "registry.db"
    ingest = ["ingest", str(H200), "--run", "july", "--triton", "3.6.0"]
    assert CliRunner().invoke(app, ["--db", str(database), *ingest]).exit_code == 0
    return write_page(database, folder / "report.html")


@pytest.fixture(scope="session")
def fleet_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `write_fleet`, compared with its first run."""
    folder = tmp_path_factory.mktemp("fleet")
    database = folder / "registry.db"
    write_fleet(folder)
    for run in ("june", "july"):
        done = CliRunner().invoke(app, ["--db", str(database), "ingest", str(folder / run)])
        assert done.exit_code == 0, done.output
    table = folder / "june.json"
    export = ["export", "--arch", "sm90", "--run", "june", "-o", str(table)]
    assert CliRunner().invoke(app, ["--db", str(database), *export]).exit_code == 0
    return write_page(database, folder / "report.html", "--triton", "3.6.0", "--against", table)
