"""The queries of examples/datasette and examples/grafana, on the databases that they are for."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.conftest import H200, ROOT, empty_database
from tuning_registry import Registry

QUERIES = json.loads((ROOT / "examples" / "datasette" / "metadata.json").read_text())["databases"]["registry"][
    "queries"
]
PANELS = json.loads((ROOT / "examples" / "grafana" / "dashboard.json").read_text())["panels"]
GRAFANA = {panel["title"]: panel["targets"][0]["rawSql"] for panel in PANELS}


def rows_of(url: str, query: str, **values: str) -> list[dict[str, Any]]:
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return [dict(row) for row in connection.execute(sa.text(query), values).mappings()]


@pytest.mark.parametrize("query", [*(one["sql"] for one in QUERIES.values()), *GRAFANA.values()])
def test_queries_read_views_alone(query: str) -> None:
    """Tables will change their form. `tally`, `elected`, `ranked` and `split` are names inside the queries."""
    words = query.replace("\n", " ").split()
    read = {after.strip("(,") for word, after in itertools.pairwise(words) if word in {"FROM", "JOIN"}}
    assert read - {"", "tally", "elected"} == {"counted_votes"}


def test_datasette_on_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/registry.db"
    with Registry(url) as registry:
        registry.ingest(H200, run="july", triton="3.6.0")
        split, ranks = registry.disagreements(), registry.ranks().ranks
    found = rows_of(url, QUERIES["disagreements"]["sql"])
    assert {(row["kernel"], row["key"]): row["configs"] for row in found} == {
        (entry.kernel, entry.key): len(entry.choices) for entry in split
    }
    dissent = {(row["run"], row["rank"]): row["dissenting_votes"] for row in rows_of(url, QUERIES["ranks"]["sql"])}
    assert dissent == {(one.run, one.rank): one.dissenting for one in ranks}
    chosen = rows_of(url, QUERIES["choices"]["sql"], **{n: getattr(split[0], n) for n in ("arch", "kernel", "key")})
    assert [(row["config"], row["votes"]) for row in chosen] == [(one.config, one.count) for one in split[0].choices]
    assert len(rows_of(url, QUERIES["kernels"]["sql"])) == 23


def test_grafana_on_postgres(icu_server: str) -> None:
    with empty_database(icu_server) as url:
        with Registry(url) as registry:
            registry.ingest(H200, run="july", triton="3.6.0")
            split, ranks = registry.disagreements(), registry.ranks().ranks
        driver = url.replace("postgresql://", "postgresql+psycopg://")
        found = {title: rows_of(driver, query) for title, query in GRAFANA.items()}
    assert found["Entries on which ranks disagree"] == [{"disagreements": len(split)}]
    assert len(found["Disagreements"]) == len(split)
    dissent = {row["rank"]: row["dissenting_votes"] for row in found["Dissenting votes of each rank"]}
    assert dissent == {f"{one.run} {one.rank}": one.dissenting for one in ranks}
    assert len(found["Recorded kernels"]) == 23
