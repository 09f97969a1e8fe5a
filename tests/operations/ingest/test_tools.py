"""Ingesting files of other tools: curated choices, devices, and votes if a rank is known."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, config, write_ranks
from tests.formats.tools.helpers import TOOLS
from tests.helpers import all_rows, error_of, on_sqlite, take
from tuning_registry.db import queries
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, RegistryError, UsageError
from tuning_registry.model.kinds import launch_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import find_disagreements
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest, ingest_in_memory
from tuning_registry.operations.reports.status import describe_status

CONFIG = {"BLOCK_SIZE_M": 16, "num_warps": 4}
CURATED = Selection(curated=True)
COMMITTED = [TOOLS / name for name in ("fla", "sglang", "vllm")]  # no file of these states a rank
H100 = "E=8,N=64,device_name=NVIDIA_H100_80GB_HBM3.json"
H200 = "E=8,N=64,device_name=NVIDIA_H200.json"


def write(folder: Path, name: str, content: Any = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"16": CONFIG} if content is None else content))
    return folder / name


def test_files_of_three_tools_in_one_ingest(store: Store) -> None:
    report = ingest(store, COMMITTED)
    assert (report.files, report.curated, report.votes, report.new) == (20, 352, 0, 2)
    before = all_rows(store)
    again = ingest(store, COMMITTED)
    assert (again.files, again.curated, again.new, again.already) == (0, 0, 0, 22)
    assert all_rows(store) == before
    status = describe_status(store)
    assert (status["curated_choices"], status["curated_sources"]) == (352, ["fla", "sglang", "vllm"])


def test_curated_choices_vote_only_if_asked(store: Store, tmp_path: Path) -> None:
    take(store, write(tmp_path, H200), run=None)
    assert find_winners(store, Selection()) == []
    (winner,) = find_winners(store, CURATED)
    assert (winner.config, winner.device, winner.votes) == (launch_text(CONFIG), "NVIDIA_H200", 1)
    assert find_disagreements(store, Selection()) == ([], 0)


def test_choices_for_two_devices_never_vote_together(store: Store, tmp_path: Path) -> None:
    take(store, write(tmp_path, H100), write(tmp_path, H200, {"16": CONFIG | {"num_warps": 8}}), run=None)
    assert find_disagreements(store, CURATED) == ([], 2)
    assert [one.device for one in find_winners(store, CURATED)] == ["NVIDIA_H100_80GB_HBM3", "NVIDIA_H200"]
    (only,) = find_winners(store, Selection(curated=True, device="NVIDIA_H200"))
    assert only.config == launch_text(CONFIG | {"num_warps": 8})


def test_two_projects_disagree_like_two_ranks(store: Store, tmp_path: Path) -> None:
    take(store, write(tmp_path / "vllm", H200), write(tmp_path / "sglang", H200, {"16": {"num_warps": 8}}), run=None)
    (entry,), total = find_disagreements(store, CURATED)
    assert (total, [(choice.count, choice.voters) for choice in entry.choices]) == (
        1,
        [(1, {"vllm": []}), (1, {"sglang": []})],
    )


def test_entries_of_curated_choices_are_skipped_until_a_rank_records_them(store: Store, tmp_path: Path) -> None:
    key, kernel = "E=8|N=64|M=16", "fused_moe_kernel"
    take(store, write(tmp_path, "E=8,N=64,device_name=.json"), run=None, arch="sm90")
    with store.reading() as reading:
        assert reading.rows(queries.entries.shapes(Selection())) == []
        assert reading.scalars(queries.entries.kernels("sm90")) == []
    take(store, *write_ranks(tmp_path / "in", [config()], kernel=kernel, key=key))
    (winner,) = find_winners(store, Selection())
    assert (winner.kernel, winner.key, winner.votes) == (kernel, key, 1)
    (entry,), _ = find_disagreements(store, CURATED)
    assert sorted(str(choice.voters) for choice in entry.choices) == ["{'demo': [0]}", "{'vllm': []}"]
    with store.reading() as reading:
        assert len(reading.rows(queries.entries.shapes(Selection()))) == 1


def test_a_changed_file_needs_replace(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path, H200)
    take(store, file, run=None)
    write(tmp_path, H200, {"16": {"num_warps": 8}})
    with pytest.raises(ConflictError, match="the database has different choices for this file; use --replace"):
        take(store, file, run=None)
    assert (take(store, file, run=None, replace=True).replaced, find_winners(store, CURATED)[0].config) == (
        1,
        launch_text({"num_warps": 8}),
    )
    write(tmp_path, H200)  # the earlier state again
    assert take(store, file, run=None, replace=True).replaced == 1
    assert [one.config for one in find_winners(store, CURATED)] == [launch_text(CONFIG)]
    write(tmp_path, H200, {"16": {"num_warps": 2}})
    take(store, file, run=None, source="fork")  # another source is another file
    assert len(find_winners(store, Selection(curated=True, source="fork"))) == 1


def test_two_files_of_one_name_and_other_content_are_refused(store: Store, tmp_path: Path) -> None:
    files = [write(tmp_path / "a", H200), write(tmp_path / "b", H200, {"16": {"num_warps": 8}})]
    with pytest.raises(ConflictError, match="has the same name but different choices"):
        take(store, *files, run=None)
    report = take(store, *files, run=None, keep_going=True)
    assert (report.files, len(report.skipped)) == (1, 1)


def test_a_version_that_the_user_states(store: Store, tmp_path: Path) -> None:
    take(store, write(tmp_path / "vllm", H200), run=None, triton="3.6.0", packages={"vllm": "0.33.0"})
    (winner,) = find_winners(store, CURATED)
    assert winner.triton == "3.6.0"
    assert describe_status(store)["curated_sources"] == ["vllm 0.33.0"]
    with pytest.raises(ConflictError, match="--triton '3.5.0', but the recording states '3.1.0'"):
        take(store, write(tmp_path / "sglang" / "triton_3_1_0", H200), run=None, triton="3.5.0")


def test_a_folder_of_a_known_rank_votes(store: Store) -> None:
    report = ingest(store, TOOLS / "fla" / "NVIDIA_H200", IngestOptions(run="tuned", rank=3))
    assert (report.new, report.votes, report.timings, report.files) == (1, 22, 13, 0)
    winners = find_winners(store, Selection())
    assert {(one.device, one.triton) for one in winners} == {("NVIDIA_H200", "3.6.0")}


def test_an_architecture_that_the_user_states(store: Store) -> None:
    folder = TOOLS / "fla" / "merged-ranks-0-1-5"
    ingest(store, folder, IngestOptions(device="NVIDIA_H200"))
    assert {(one.arch, one.device) for one in find_winners(store, CURATED)} == {("sm90", "NVIDIA_H200")}
    with pytest.raises(ConflictError, match="--arch sm100, but the file is for sm90"):
        ingest(store, TOOLS / "fla" / "NVIDIA_H200", IngestOptions(arch="sm100"))


def test_options_for_one_source(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--rank applies to a single recording, but the paths name 2 files or caches"):
        take(store, write(tmp_path, H100), write(tmp_path, H200), rank=0)
    with pytest.raises(UsageError, match="--arch applies to Triton cache folders and files of other tools"):
        take(store, *write_ranks(tmp_path / "in", [config()]), arch="sm90")


def test_a_named_format_reads_files_that_do_not_show_theirs(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path, H200)
    take(store, file, run=None, format="sglang")
    assert describe_status(store)["curated_sources"] == ["sglang"]
    with pytest.raises(UsageError, match="there is no format 'no'"):
        take(store, file, format="no")
    with pytest.raises(RegistryError, match=r"x\.json: not the file name of a vLLM config"):
        take(store, write(tmp_path, "x.json"), format="vllm")


def test_a_damaged_file_rejects_all_and_is_named(store: Store, tmp_path: Path) -> None:
    write(tmp_path, H100)
    (tmp_path / H200).write_text('{"16": {"num_warps": 4')
    with pytest.raises(RegistryError, match=r"NVIDIA_H200\.json: not JSON at line 1 column \d+"):
        take(store, tmp_path, run=None)
    report = take(store, tmp_path, run=None, keep_going=True)
    assert (report.files, len(report.skipped)) == (1, 1)


def test_a_database_in_memory_holds_curated_choices() -> None:
    store = ingest_in_memory([TOOLS / "vllm"])
    assert len(find_winners(store, CURATED)) == 151


@on_sqlite
def test_commands_make_sense_of_curated_choices(cli: Cli, tmp_path: Path) -> None:
    assert cli("ingest", *COMMITTED).exit_code == 0
    hint = "352 curated choices do not vote; --curated counts them\n"
    assert cli("winners").stderr.endswith(hint)
    assert cli("explain", "--arch", "sm90", "--kernel", "fused_moe_kernel").stderr.endswith(hint)
    kernels = json.loads(cli("kernels", "--curated", "--format", "json").stdout)
    assert {"arch": "sm90", "kernel": "selective_state_update", "entries": 42, "ranks": 2, "votes": 42,
            "disagreements": 0} in kernels  # fmt: skip
    asked = ("--arch", "sm90", "--kernel", "w8a8_block_fp8_matmul", "--curated")
    shown = cli("explain", *asked, "--key", "N=24576|K=7168|dtype=fp8_w8a8|block_shape=[128,128]|M=96").stdout
    assert "sglang" in shown
    assert "BLOCK_SIZE_K=128 BLOCK_SIZE_M=64 BLOCK_SIZE_N=64 GROUP_SIZE_M=64 num_stages=3 num_warps=4" in shown
    page = tmp_path / "page.html"
    assert cli("report", "--curated", "--html", page).exit_code == 0
    assert "NVIDIA_H200" in page.read_text()
    assert "BLOCK_SIZE_M=64" in page.read_text()


@on_sqlite
def test_a_table_holds_triton_configs_only(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", *COMMITTED)
    error = error_of(cli("export", "--arch", "gfx942", "--curated"))
    assert "a table holds Triton configs, but all 54 entries have configs of another kind (launch)" in error
    done = cli("export", "--arch", "sm90", "--curated", "-o", tmp_path / "t.json")
    assert done.exit_code == 0
    assert "note: 234 entries left out: their config is not a Triton config" in done.stderr
    assert cli("validate", tmp_path / "t.json").exit_code == 0
    assert "curated choices do not vote; --curated" in error_of(cli("export", "--arch", "sm90"))


@on_sqlite
def test_a_table_is_for_one_device(cli: Cli, tmp_path: Path) -> None:
    shutil.copytree(TOOLS / "fla" / "NVIDIA_H200", tmp_path / "NVIDIA_H100")
    cli("ingest", TOOLS / "fla" / "NVIDIA_H200", tmp_path / "NVIDIA_H100")
    asked = ("export", "--arch", "sm90", "--curated", "-o", tmp_path / "t.json")
    assert "the entries are for 2 devices: NVIDIA_H100, NVIDIA_H200" in error_of(cli(*asked))
    assert cli(*asked, "--device", "NVIDIA_H100").exit_code == 0
    cli("ingest", *write_ranks(tmp_path / "in", [config()]), "--triton", "3.6.0", "--run", "r")
    done = cli("export", "--arch", "sm90", "--curated", "-o", tmp_path / "u.json")
    assert done.stderr.count("note: 44 entries left out: they are for one device only") == 1
    assert list(json.loads((tmp_path / "u.json").read_text())["kernels"]) == ["k"]
