"""The picture of a report in the README: `make picture` takes it in Chromium, of the page of the shipped recordings.

usage: picture.py FILE
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from tuning_registry import Registry

ROOT: Final = Path(__file__).resolve().parents[2]
_SIZE: Final = {"width": 1280, "height": 1140}


def take_picture(picture: Path) -> None:
    """Write a PNG of the top of the page."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "report.html"
        with Registry(Path(folder) / "registry.db") as registry:
            registry.ingest(ROOT / "examples" / "h200", run="july", triton="3.6.0")
            registry.report().write(page)
        executable = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport=_SIZE, color_scheme="light")
        tab.goto(page.as_uri())
        tab.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]))
