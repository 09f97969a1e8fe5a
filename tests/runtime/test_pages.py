"""Blocks of the documentation that need Triton: the pages that have some run here from start to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Shell, blocks, pages, run_page

pytest.importorskip("triton")
pytest.importorskip("torch")
PAGES = [page for page in pages() if any(block.mark == "needs" for block in blocks(page))]


def test_some_pages_need_triton() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/guides/pin-a-job.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_that_need_triton_do_what_the_page_shows(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run_page(page, Shell(tmp_path), rewriting=request.config.getoption("--rewrite-golden"))
