"""Which rank of which run a process records as: groups that come and go, launchers, forks, guesses."""

import multiprocessing
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.recording.helpers import CONFIGS, entry, files, forked, made, wait_for
from tests.runtime.test_process import python
from tuning_registry.formats.recordings import read_recording
from tuning_registry.runtime.job.place import Place, current_place, process_group, stated_run


class FakeGroup:
    """`torch.distributed` with a process group that can be taken down."""

    def __init__(self, rank: int = 3, size: int = 4) -> None:
        self.rank, self.size, self.is_up = rank, size, True
        self.store: dict[str, bytes] = {}
        self.group = types.SimpleNamespace(WORLD=FakeStore())
        self.distributed_c10d = types.SimpleNamespace(
            _get_default_store=lambda: types.SimpleNamespace(compare_set=self.compare_set)
        )

    def compare_set(self, key: str, *_: str) -> bytes:
        assert self.is_up
        return self.store.setdefault(key, b"agreed")

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self.is_up

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return self.size


class FakeStore:
    """Stands for the group object, which must not be kept alive."""


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> FakeGroup:
    fake = FakeGroup()
    monkeypatch.setitem(sys.modules, "torch.distributed", fake)
    return fake


def only(tmp_path: Path) -> Any:
    (file,) = files(tmp_path)
    return read_recording(file)


@pytest.mark.parametrize("destroyed", ["at once", "after a write"])
def test_a_group_that_is_destroyed_before_the_end_is_remembered(
    tmp_path: Path, group: FakeGroup, destroyed: str
) -> None:
    recorder = made(tmp_path, run=None)
    recorder.vote(entry(), CONFIGS[0], [], [])
    if destroyed != "at once":
        wait_for(lambda: files(tmp_path))
    group.is_up = False
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.finish()
    header = only(tmp_path).header
    assert (header.run, header.rank, header.world_size) == ("agreed", 3, 4)


def test_a_group_that_comes_and_goes_between_two_writes_counts_at_the_vote(tmp_path: Path, group: FakeGroup) -> None:
    group.is_up = False
    recorder = made(tmp_path, run=None, interval_s=60)
    recorder.vote(entry(), CONFIGS[0], [], [])
    wait_for(lambda: files(tmp_path))
    assert only(tmp_path).header.rank == 0
    group.is_up = True
    recorder.vote(entry(1), CONFIGS[0], [], [])
    group.is_up = False
    recorder.finish()
    recording = only(tmp_path)
    assert (recording.header.run, recording.header.rank) == ("agreed", 3)
    assert len(recording.votes["sm90"]["pkg.kernel"]) == 2


def test_a_group_is_noticed_though_nothing_is_tuned_any_more(
    tmp_path: Path, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuning_registry.runtime.recording.background_writer._IDLE_S", 0.01)
    group.is_up = False
    recorder = made(tmp_path, run=None)
    recorder.vote(entry(), CONFIGS[0], [], [])
    wait_for(lambda: files(tmp_path))
    group.is_up = True
    wait_for(lambda: group.store)
    group.is_up = False
    recorder.finish()
    assert (only(tmp_path).header.run, only(tmp_path).header.rank) == ("agreed", 3)


def test_ranks_that_cannot_agree_keep_runs_of_their_own(
    tmp_path: Path, group: FakeGroup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    group.is_up = False
    recorder = made(tmp_path, run=None)
    group.is_up = True
    monkeypatch.setattr(group, "compare_set", lambda *a: 1 / 0)
    for number in range(3):
        recorder.vote(entry(number), CONFIGS[0], [], [])
    recorder.finish()
    assert only(tmp_path).header.rank == 3
    assert caplog.text.count("could not agree on a run") == 1


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, Place(2, 4)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "PMI_RANK": "2", "PMI_SIZE": "4"}, Place(2, 4)),
        ({"RANK": "7", "WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, Place(7, 8)),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, Place(0, None, certain=False)),
    ],
)  # fmt: skip
def test_the_launcher_closest_to_the_process_wins(environ: Any, place: Any) -> None:
    assert current_place(environ) == place


def test_in_a_worker_of_multiprocessing_only_rank_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing.process, "parent_process", object)
    assert not current_place({"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}).certain
    assert current_place({"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "RANK": "1", "WORLD_SIZE": "8"}) == Place(1, 8)


def test_a_forked_child_is_not_in_its_parents_group(tmp_path: Path, group: FakeGroup) -> None:
    assert current_place() == Place(3, 4)

    def work() -> None:
        inherited = process_group() is None and not current_place().certain
        group.group = types.SimpleNamespace(WORLD=FakeStore())
        group.rank = 1
        (tmp_path / "said").write_text(f"{inherited} {current_place()}")

    forked(work)
    assert (tmp_path / "said").read_text() == f"True {Place(1, 4)}"


def test_a_process_that_guesses_makes_way_for_another_of_its_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])
    wait_for(lambda: files(tmp_path))
    assert only(tmp_path).header.run == "job"
    other = tmp_path / "rec" / "r.job.elsewhere.1.rank0.json"
    other.write_text("theirs")
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.finish()
    (mine,) = set(files(tmp_path)) - {other}
    assert other.read_text() == "theirs"
    assert str(read_recording(mine).header.run).startswith("job.")
    assert caplog.text.count("does not know its rank") == 1


def test_a_process_that_was_given_its_rank_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    (tmp_path / "rec").mkdir()
    other = tmp_path / "rec" / "r.job.elsewhere.1.rank0.json"
    other.write_text("theirs")
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    (mine,) = set(files(tmp_path)) - {other}
    assert read_recording(mine).header.run == "job"


def test_the_name_of_a_restarted_pod_is_taken_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the process is 1 again, and host, run and rank are those of before."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    attempts = []
    for number in range(3):
        recorder = made(tmp_path)
        recorder.vote(entry(number), CONFIGS[0], [], [])
        recorder.finish()
        attempts.append(recorder.file)
    assert attempts[0].name.endswith(".1.rank1.json")
    assert len(set(attempts)) == 3
    assert [list(read_recording(file).votes["sm90"]["pkg.kernel"]) for file in attempts] == [["M=0"], ["M=1"], ["M=2"]]


def test_without_links_a_name_is_still_taken_by_one_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setenv("RANK", "1")
    for number in range(2):
        recorder = made(tmp_path)
        recorder.vote(entry(number), CONFIGS[0], [], [])
        recorder.finish()
    assert len(list(map(read_recording, files(tmp_path)))) == 2


def test_a_run_that_no_database_could_hold_is_spelt_so_that_one_can() -> None:
    assert stated_run(None, {"TUNING_REGISTRY_RUN": "job\udcff"}) == "job\\udcff"
    long = stated_run(None, {"SLURM_JOB_ID": "ü" * 900})
    assert long is not None
    assert len(long.encode()) <= 1000


FORKING = """
import multiprocessing, os, sys
from tests.runtime.fakes import autotuner, launch
from tuning_registry.runtime import install

POLICY = {"record_path": sys.argv[2], "arch": "sm90", "run": "job"}

def work(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    if sys.argv[1] == "again":
        install(POLICY)
    launch(autotuner(name=f"child{rank}"))

install(POLICY)
launch(autotuner(name="parent"))
children = [multiprocessing.get_context("fork").Process(target=work, args=(rank,)) for rank in (0, 1)]
for child in children:
    child.start()
for child in children:
    child.join()
"""


@pytest.mark.parametrize("how", ["inherited", "again"])
def test_forked_ranks_record(tmp_path: Path, how: str) -> None:
    pytest.importorskip("triton")
    (tmp_path / "x.py").write_text(FORKING)
    python("x.py", how, tmp_path / "r", cwd=tmp_path)
    recordings = list(map(read_recording, tmp_path.glob("r.*.json")))
    assert sorted(kernel for r in recordings for kernel in r.votes["sm90"]) == [
        "pkg.ops.child0", "pkg.ops.child1", "pkg.ops.parent",
    ]  # fmt: skip
    assert len({(r.header.run, r.header.rank) for r in recordings}) == 3
    for r in recordings:
        (kernel,) = r.votes["sm90"]
        assert kernel == "pkg.ops.parent" or (r.header.run, kernel) == ("job", f"pkg.ops.child{r.header.rank}")


DESTROYING = """
import sys
import torch.multiprocessing as mp

def work(rank, folder):
    import torch.distributed as dist
    from tests.runtime.fakes import Timer, autotuner, launch
    from tuning_registry.runtime import install
    install({"record_path": folder + "/r", "arch": "sm90"})
    dist.init_process_group("gloo", init_method="file://" + folder + "/store", rank=rank, world_size=2)
    launch(autotuner(timer=Timer([1, 2, 3] if rank else [3, 1, 2])))
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, (sys.argv[1],), nprocs=2)
"""


def test_spawned_ranks_that_destroy_their_group_keep_their_ranks(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    (tmp_path / "x.py").write_text(DESTROYING)
    python("x.py", tmp_path, cwd=tmp_path)
    headers = [read_recording(file).header for file in tmp_path.glob("r.*.json")]
    assert sorted((header.rank, header.world_size) for header in headers) == [(0, 2), (1, 2)]
    assert len({header.run for header in headers}) == 1
