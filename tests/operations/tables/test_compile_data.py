"""The compile data beside an exported table: what belongs to its configs, versions and keys, and nothing else."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, Json, config, version_2, write_recording
from tests.operations.ingest.test_specializations import CONFIGS, compiled, recording, specialization
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError
from tuning_registry.formats.compile_file import CompileData, compile_file_of, read_compile_file
from tuning_registry.formats.table import read_table
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import ingest
from tuning_registry.operations.overrides import add_override
from tuning_registry.operations.tables.export import ExportOptions, export_table
from tuning_registry.registry import Registry

SM90 = Selection(arch="sm90")


def made_from(store: Store, folder: Path, selection: Selection = SM90, **options: Any) -> CompileData:
    ingest(store, [folder])
    return export_table(store, selection, ExportOptions(compile_data=True, **options)).compile_data


def keys_of(data: CompileData) -> dict[str, list[str]]:
    """The keys by the last digit of the specialization."""
    return {one.specialization.cache_key[-1]: list(one.keys) for one in data.kernels}


def test_what_the_winners_of_a_table_need_and_nothing_else(store: Store, tmp_path: Path) -> None:
    recording(tmp_path, 0, {"M=1": [[0, 0]], "M=2": [[0, 0]]}, triton="3.6.0")
    recording(tmp_path, 1, {"M=1": [[0, 0]], "M=2": [[1, 1]]}, triton="3.6.0")  # of a config that does not win
    data = made_from(store, tmp_path)
    assert keys_of(data) == {"0": ["M=1", "M=2"]}
    assert (data.keys, data.triton, data.arch) == (2, "3.6.0", "sm90")


def test_a_key_may_need_several(store: Store, tmp_path: Path) -> None:
    for rank in range(2):
        recording(tmp_path, rank, {"M=1": [[0, rank]]}, triton="3.6.0")
    assert keys_of(made_from(store, tmp_path)) == {"0": ["M=1"], "1": ["M=1"]}


def test_spellings_of_a_key_that_triton_cannot_tell_apart_are_one(store: Store, tmp_path: Path) -> None:
    recording(tmp_path, 0, {"M=True": [[0, 0]]}, triton="3.6.0")
    recording(tmp_path, 1, {"M=1": [[0, 1]]}, triton="3.6.0")
    assert sorted(keys_of(made_from(store, tmp_path))) == ["0", "1"]


def test_an_entry_for_every_key_needs_all_on_which_its_config_was_recorded(store: Store, tmp_path: Path) -> None:
    timed = {"sm90": {"pkg.k": {key: [[one, [1.0, 1.0, 1.0]] for one in CONFIGS] for key in ("M=1", "M=2")}}}
    recording(tmp_path, 0, {"M=1": [[0, 0]], "M=2": [[0, 1]]}, triton="3.6.0", timings=timed)
    data = made_from(store, tmp_path, generalize_percent=5)
    assert keys_of(data) == {"0": ["M=1"], "1": ["M=2"]}


def test_other_versions_of_triton_and_of_the_package_are_left_out(store: Store, tmp_path: Path) -> None:
    owner = {"modules": {"pkg": "dist"}}
    for rank, (triton, version) in enumerate([("3.6.0", "1"), ("3.6.0", "2"), ("3.9.0", "1")]):
        entries = {"M=1": [[0, rank]]}
        recording(tmp_path, rank, entries, compiled(entries, 3), triton=triton, packages={"dist": version}, **owner)
    ingest(store, [tmp_path])
    with pytest.raises(SelectionError):  # several versions
        export_table(store, SM90, ExportOptions(compile_data=True))
    selection = Selection(arch="sm90", triton="3.6.0", packages={"dist": "1"})
    assert keys_of(export_table(store, selection, ExportOptions(compile_data=True)).compile_data) == {"0": ["M=1"]}


@pytest.mark.parametrize("triton", [None, "3.6.0"])
def test_without_compile_data_or_a_version_there_is_none(triton: str | None, store: Store, tmp_path: Path) -> None:
    extra: Json | None = {} if triton else None
    recording(tmp_path, 0, {"M=1": [[0, 0]]}, extra, **({"triton": triton} if triton else {}))
    assert not made_from(store, tmp_path)


def test_it_is_not_made_unless_asked_for(store: Store, tmp_path: Path) -> None:
    recording(tmp_path, 0, {"M=1": [[0, 0]]}, triton="3.6.0")
    ingest(store, [tmp_path])
    assert not export_table(store, SM90).compile_data


def test_a_pinned_config_that_nobody_chose_has_none(store: Store, tmp_path: Path) -> None:
    recording(tmp_path, 0, {"M=1": [[0, 0]], "M=2": [[0, 0]]}, triton="3.6.0")
    ingest(store, [tmp_path])
    add_override(store, "pin", arch="sm90", kernel="pkg.k", key="M=1", config=config_text(config(B=64)), reason="test",
                 author="me", now=dt.datetime.now(dt.UTC), force=True)  # fmt: skip
    data = export_table(store, SM90, ExportOptions(compile_data=True)).compile_data
    assert keys_of(data) == {"0": ["M=2"]}


class TestFiles:
    """What `export` writes beside the table."""

    @pytest.fixture
    def recordings(self, tmp_path: Path) -> Path:
        folder = tmp_path / "recordings"
        folder.mkdir()
        recording(folder, 0, {"M=1": [[0, 0]], "M=2": [[0, 0]]}, triton="3.6.0")
        return folder

    def test_export_writes_it_beside_the_table_whose_bytes_are_the_same(
        self, cli: Cli, recordings: Path, tmp_path: Path
    ) -> None:
        cli("ingest", recordings)
        table = tmp_path / "tables" / "sm90.json"
        result = cli("export", "--arch", "sm90", "-o", table)
        file = compile_file_of(table, read_table(table).digest)
        assert f"compile data on 2 of 2 entries in {file.name}, from which jobs compile" in result.stderr
        assert sorted(one.name for one in table.parent.iterdir()) == sorted(["sm90.json", file.name])
        assert file.suffix == ".compile"  # so that *.json names tables alone
        assert keys_of(read_compile_file(file)) == {"0": ["M=1", "M=2"]}
        plain = tmp_path / "plain" / "sm90.json"
        assert "compile data" not in cli("export", "--arch", "sm90", "--no-compile-data", "-o", plain).stderr
        assert (list(plain.parent.iterdir()), plain.read_bytes()) == ([plain], table.read_bytes())
        assert cli("check", table).exit_code == 0

    def test_stdout_and_devices_get_the_table_alone(self, cli: Cli, recordings: Path) -> None:
        cli("ingest", recordings)
        assert "compile data" not in cli("export", "--arch", "sm90").stderr
        assert cli("export", "--arch", "sm90", "-o", "/dev/null").exit_code == 0
        assert not list(Path("/dev").glob("*.compile"))

    def test_the_file_of_the_replaced_table_goes_and_no_other(self, cli: Cli, recordings: Path, tmp_path: Path) -> None:
        table, other = tmp_path / "sm90.json", tmp_path / "sm90.0123456789abcdef.compile"
        other.write_text("of a table that somebody else keeps")
        cli("ingest", recordings)
        cli("export", "--arch", "sm90", "-o", table)
        before = compile_file_of(table, read_table(table).digest)
        assert before.exists()
        document = version_2({"sm90": {"pkg.new": {"M=1": CONFIGS[0]}}}, 9, run="more", rank=9, triton="3.6.0")
        cli("ingest", write_recording(tmp_path / "more.json", document))
        cli("export", "--arch", "sm90", "-o", table)
        after = compile_file_of(table, read_table(table).digest)
        assert (before.exists(), after.exists(), other.exists()) == (False, True, True)

    def test_merge_writes_it_as_well(self, cli: Cli, recordings: Path, tmp_path: Path) -> None:
        table = tmp_path / "sm90.json"
        assert "compile data on 2 of 2 entries" in cli("merge", recordings, "-o", table).stderr
        assert compile_file_of(table, read_table(table).digest).exists()

    def test_the_library_writes_it_as_the_command_does(self, recordings: Path, tmp_path: Path) -> None:
        with Registry(tmp_path / "r.db") as registry:
            registry.ingest(recordings)
            made = registry.export("sm90")
            made.write(tmp_path / "sm90.json")
            assert made.to_dict()["compile_data"] == {"entries": 2, "kernels": 1}
            assert compile_file_of(tmp_path / "sm90.json", made.digest).exists()
            registry.export("sm90", compile_data=False).write(tmp_path / "other" / "sm90.json")
        assert [one.name for one in (tmp_path / "other").iterdir()] == ["sm90.json"]


def test_the_file_is_what_was_written(tmp_path: Path) -> None:
    from tuning_registry.formats.compile_file import CompiledKernel
    from tuning_registry.model.specializations import Specialization

    kernels = (CompiledKernel("pkg.k", ("M=1|é",), Specialization.from_dict(specialization(3))),)
    data = CompileData("sm90", "ab" * 32, "3.6.0", kernels)
    (tmp_path / "x").write_bytes(data.data)
    assert read_compile_file(tmp_path / "x").data == data.data
