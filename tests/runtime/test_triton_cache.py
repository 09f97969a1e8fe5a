"""From Triton's own cache folder to a pinned kernel, with no change to the job that filled it."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import Config, Tensor, autotuner
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.tables.export import export_table
from tuning_registry.runtime import AutotunePolicy, coverage_report, install

DATA = Path(__file__).parent.parent / "data"
TRUTH = json.loads((DATA / "triton-cache-truth.json").read_text())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    store = Store(parse_url(f"sqlite:///{tmp_path}/r.db"))
    ingest(store, DATA / "triton-cache", IngestOptions(run="adopted", rank=0))
    file = tmp_path / "sm90.json"
    file.write_bytes(export_table(store, Selection(arch="sm90")).data)
    return file


def live_row_sum() -> Any:
    """An autotuner with the arguments, keys and candidates of the kernel that filled the cache."""
    configs = [Config({"BLOCK": b}, num_warps=w, num_stages=3) for b in (128, 256, 512) for w in (1, 2, 4)]
    return autotuner(configs, key=["n_cols"], args=["x", "out", "n_cols", "BLOCK"], name="row_sum", module="__main__")


@pytest.mark.parametrize("style", ["positional", "keyword"])
def test_a_live_autotuner_hits_the_entries_of_an_adopted_cache(table: Path, style: str) -> None:
    kernel = live_row_sum()
    install(AutotunePolicy(mode="pinned", table_path=table, arch="sm90", on_miss="error"))
    expected = []
    for entry in TRUTH["entries"]:
        if entry["kernel"] != "__main__.row_sum":
            continue
        n_cols, *dtypes = entry["key"]
        x, out = map(Tensor, dtypes)
        if style == "positional":
            kernel[(1,)](x, out, n_cols)
        else:
            kernel[(1,)](n_cols=n_cols, out=out, x=x)
        expected.append((entry["winner"]["kwargs"]["BLOCK"], entry["winner"]["num_warps"]))
    assert [(launch["BLOCK"], launch["num_warps"]) for launch in kernel.fn.launches] == expected
    assert len(expected) == 4
    assert (kernel.timer.calls, coverage_report().misses) == (0, ())
