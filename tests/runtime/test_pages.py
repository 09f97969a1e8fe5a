"""Blocks of the documentation that need Triton: the pages that have some run here from start to end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from tests.docs.blocks import ROOT, Shell, blocks, pages, run_page
from tests.docs.servers import postgres_of
from tests.runtime.fakes import HAS_LISTENER

pytestmark = pytest.mark.skipif(
    not HAS_LISTENER, reason="pages run with the newest Triton; other tests are about releases"
)

PROVIDES = {"triton", "torch", "job"}
PAGES = [
    page for page in pages() if any(set(block.marks.get("needs", "-").split()) <= PROVIDES for block in blocks(page))
]
DOCS = ROOT / "tests" / "docs"


@pytest.fixture
def shell(page: str, tmp_path: Path) -> Iterator[Shell]:
    """A shell that also has Triton, a training job and launchers."""
    with postgres_of(page) as client:
        made = Shell(tmp_path, provides=PROVIDES, **client)
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
