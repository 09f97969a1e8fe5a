"""Blocks of the documentation that need Triton: the pages that have some run here from start to end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from tests.docs.blocks import POSTGRES_MARK, ROOT, Shell, blocks, pages, run_page
from tests.docs.postgres import example_server
from tests.runtime.fakes import HAS_LISTENER

PAGES = [
    page for page in pages() if any(block.marks.get("needs", "no-triton") != "no-triton" for block in blocks(page))
]
DOCS = ROOT / "tests" / "docs"


@pytest.fixture
def shell(page: str, tmp_path: Path) -> Iterator[Shell]:
    """A shell that also has a training job and launchers: in one release, as other tests are about releases."""
    has_server = POSTGRES_MARK in (ROOT / page).read_text()
    with example_server() if has_server and HAS_LISTENER else nullcontext({}) as client:
        made = Shell(tmp_path, provides={"triton", "torch"} | ({"job"} if HAS_LISTENER else set()), **client)
        if HAS_LISTENER:
            shutil.copytree(DOCS / "job", made.folder, dirs_exist_ok=True)
            for launcher in ("torchrun", "srun"):
                made.add_tool(launcher, f"{DOCS}/launchers/{launcher}.py")
        yield made


def test_some_pages_need_triton() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/guides/pin-a-job.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_that_need_triton_do_what_the_page_shows(
    page: str, shell: Shell, request: pytest.FixtureRequest
) -> None:
    run_page(page, shell, rewriting=request.config.getoption("--rewrite-golden"))
