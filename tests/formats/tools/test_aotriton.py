"""The tuning databases of AOTriton."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, choices, read
from tests.formats.tools.test_flaggems import make
from tuning_registry.errors import RecordingError
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.tools.aotriton import AotritonDatabase
from tuning_registry.model.kinds import fields_of

AOTRITON = AotritonDatabase()
REAL = TOOLS / "aotriton" / "gfx942" / "attn_fwd.subset.sqlite3"
TABLE = "FLASH$attn_fwd"
ROW: dict[str, Any] = {
    "gpu": "gfx942_mod0",
    "inputs$Q_dtype": "torch.float16",
    "inputs$Max_seqlen_q": 16,
    "tuned_kernel$BLOCK_M": 64,
    "compiler_options$num_warps": 4,
}


def test_every_row_of_a_real_database() -> None:
    (recording,) = read(AOTRITON, REAL)
    assert [(arch, list(kernels)) for arch, kernels in recording.votes.items()] == [
        ("gfx942", ["aotriton.flash.attn_fwd"])
    ]
    found = choices(recording)
    connection = sqlite3.connect(f"file:{REAL}?mode=ro&immutable=1", uri=True)
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute(f'SELECT * FROM "{TABLE}"')]
    connection.close()
    assert len(found) == len(rows) == 48

    def values(row: dict[str, Any], *prefixes: str) -> dict[str, Any]:
        return {name.partition("$")[2]: value for name, value in row.items() if name.startswith(prefixes)}

    for (key, text), row in zip(found.items(), rows, strict=True):
        assert fields_of(text) == values(row, "tuned_kernel$", "compiler_options$")
        assert key == "|".join(f"{name}={value}" for name, value in values(row, "inputs$").items())
    assert Counter(key.split("|")[0] for key in found).keys() <= {
        "Q_dtype=torch.float16", "Q_dtype=torch.bfloat16", "Q_dtype=torch.float32",
    }  # fmt: skip


def test_what_is_not_stated_stays_unstated() -> None:
    (recording,) = read(AOTRITON, REAL)
    assert (recording.device, recording.header.rank, recording.header.triton, recording.timings) == ("", None, None, {})


def test_the_file_is_not_changed(tmp_path: Path) -> None:
    path = Path(shutil.copy(REAL, tmp_path / "attn_fwd.sqlite3"))
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    read(AOTRITON, path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert list(tmp_path.iterdir()) == [path]


def test_architectures_and_variants_are_told_apart(tmp_path: Path) -> None:
    rows = [ROW | {"gpu": gpu} for gpu in ("gfx942_mod0", "gfx942_mod1", "gfx90a_mod0", "gfx1100")]
    recordings = list(AOTRITON.read([make(tmp_path / "k.sqlite3", **{TABLE: rows})]))
    assert [(list(one.votes), list(choices(one))) for one in recordings] == [
        (["gfx942"], ["Q_dtype=torch.float16|Max_seqlen_q=16", "mod=1|Q_dtype=torch.float16|Max_seqlen_q=16"]),
        (["gfx90a"], ["Q_dtype=torch.float16|Max_seqlen_q=16"]),
        (["gfx1100"], ["Q_dtype=torch.float16|Max_seqlen_q=16"]),
    ]
    assert len({one.origin for one in recordings}) == 3


def test_a_missing_value_is_not_filled_in(tmp_path: Path) -> None:
    row = ROW | {"compiler_options$num_warps": None}
    (recording,) = AOTRITON.read([make(tmp_path / "k.sqlite3", **{TABLE: [row]})])
    assert [fields_of(text) for text in choices(recording).values()] == [{"BLOCK_M": 64}]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([ROW, ROW], "row 2: another row has the same key"),
        ([ROW | {"gpu": "sm90"}], "row 1/gpu: expected a GPU such as gfx942_mod0, found the string 'sm90'"),
        ([ROW | {"gpu": b"x"}], "row 1/gpu: expected a GPU such as gfx942_mod0, found binary data"),
        ([ROW | {"inputs$Q_dtype": b"x"}], "row 1/inputs$Q_dtype: expected a number or a string, found binary data"),
        ([ROW | {"compiler_options$num_warps": -4}], "row 1/num_warps: expected an integer from 1"),
        ([ROW | {"compiler_options$BLOCK_M": 4}], "another column also gives 'BLOCK_M'"),
        ([ROW | {"other": 4}], "unexpected column the string 'other'"),
        ([{"gpu": "gfx942", "inputs$M": 1}], "expected columns that begin with 'tuned_kernel$'"),
    ],
)
def test_damaged_databases_are_refused_by_name(tmp_path: Path, rows: list[dict[str, Any]], said: str) -> None:
    file = make(tmp_path / "k.sqlite3", **{TABLE: rows})
    assert AOTRITON.recognizes(file)
    with pytest.raises(RecordingError) as found:
        list(AOTRITON.read([file]))
    assert str(found.value).startswith(f"{file.path}: at {TABLE}")
    assert said in str(found.value)


def test_a_cut_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "attn_fwd.sqlite3"
    path.write_bytes(REAL.read_bytes()[:9000])
    with pytest.raises(RecordingError, match=r"attn_fwd\.sqlite3: cannot be read"):
        list(AOTRITON.read([ToolFile(path)]))


def test_a_view_is_not_a_table(tmp_path: Path) -> None:
    path = tmp_path / "k.sqlite3"
    make(path, other=[ROW])
    connection = sqlite3.connect(path)
    connection.execute(f'CREATE VIEW "{TABLE}" AS SELECT * FROM other')
    connection.close()
    assert not AOTRITON.recognizes(ToolFile(path))
    with pytest.raises(RecordingError, match="has no table of AOTriton"):
        list(AOTRITON.read([ToolFile(path)]))


def test_other_files_are_not_recognized(tmp_path: Path) -> None:
    (tmp_path / "text.sqlite3").write_text("{}")
    assert not AOTRITON.recognizes(ToolFile(tmp_path / "text.sqlite3"))
