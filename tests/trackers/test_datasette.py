"""The canned queries of examples/datasette in the real Datasette, offline (`make test-trackers`)."""

# mypy: disable-error-code="import-not-found, import-untyped"
# (Datasette is installed by `make test-trackers` only.)

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from datasette.app import Datasette

from tests.docs.blocks import Shell, blocks_run_by
from tuning_registry import Registry

EXAMPLES = Path(__file__).parents[2] / "examples"
METADATA = json.loads((EXAMPLES / "datasette" / "metadata.json").read_text())


def pages(folder: Path, *paths: str) -> list[Any]:
    """The answers of a Datasette on the shipped recordings."""
    file = folder / "registry.db"
    with Registry(f"sqlite:///{file}") as registry:
        registry.ingest(EXAMPLES / "h200", run="july", triton="3.6.0")

    async def ask() -> list[Any]:
        server = Datasette([str(file)], metadata=METADATA)
        await server.invoke_startup()
        return [await server.client.get(path) for path in paths]

    return asyncio.run(ask())


@pytest.mark.parametrize(("query", "rows"), [("disagreements", 12), ("ranks", 8), ("kernels", 23)])
def test_a_query_answers(query: str, rows: int, tmp_path: Path) -> None:
    data, page = pages(tmp_path, f"/registry/{query}.json?_shape=array", f"/registry/{query}")
    assert (data.status_code, len(data.json())) == (200, rows)
    assert METADATA["databases"]["registry"]["queries"][query]["title"] in page.text


def test_a_query_takes_an_entry(tmp_path: Path) -> None:
    (first, *_) = pages(tmp_path, "/registry/disagreements.json?_shape=array")[0].json()
    names = "&".join(f"{name}={first[name]}" for name in ("arch", "kernel", "key"))
    (answer,) = pages(tmp_path, f"/registry/choices.json?_shape=array&{names}")
    assert sum(row["votes"] for row in answer.json()) == first["votes"]
    assert len(answer.json()) == first["configs"]


def test_the_documented_commands_start_a_server(tmp_path: Path) -> None:
    (block,) = blocks_run_by(__file__, "docs/guides/use-from-a-notebook.md")
    shell = Shell(tmp_path)
    shell.run_script("registry ingest examples/h200 --run july")
    shell.run_server(block.text.rstrip() + " --port 0", block.marks["until"])
