"""Ranks that share the work of a recording run, where something about the kernel, the folder or the process is odd."""

# mypy: disable-error-code="misc, import-untyped, import-not-found, attr-defined"
# (Triton comes without types, or not at all.)

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, NAME, Autotuner, Config, Counting, OutOfResources, autotuner, launch, launched
from tuning_registry.formats.recordings import read_recording
from tuning_registry.model.records import Recording
from tuning_registry.model.shares import EXTRA, decode_candidates
from tuning_registry.runtime import install, uninstall
from tuning_registry.runtime.guard import fault_counts
from tuning_registry.runtime.job import place
from tuning_registry.runtime.recording.recorders import forget_recorders

SIZES = [2**power for power in range(4, 14)]
RANKS = 4


class Fitting:
    """A kernel of which the candidates with some BLOCK_M fit the device, and a clock that runs it."""

    def __init__(self, *fitting: Any) -> None:
        self.fitting = fitting
        self.timed: list[Any] = []

    def behave(self, *_: Any, **options: Any) -> None:
        self.timed.append(options["BLOCK_M"])
        if options["BLOCK_M"] not in self.fitting:
            raise OutOfResources(2, 1, "shared memory")

    def time(self, kernel_call: Any, quantiles: Any) -> Any:  # noqa: ARG002  # as Triton calls it
        kernel_call()
        return [float(self.timed[-1])] * 3

    def kernel(self, **options: Any) -> Any:
        configs = options.pop("configs", None) or [Config({"BLOCK_M": size}) for size in SIZES]
        return autotuner(configs, timer=self.time, behave=self.behave, **options)


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts one rank of a job, as a new process does."""

    def begin(rank: int = 0, *, size: int = RANKS, run: str = "job", **policy: Any) -> None:
        uninstall()
        forget_recorders()
        monkeypatch.setattr(place, "_memory", place._Memory())
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(size))
        install(**{"record_path": tmp_path / "rec" / "r", "arch": ARCH, "run": run, "split": RANKS, **policy})

    (tmp_path / "rec").mkdir()
    yield begin
    uninstall()


def recordings(tmp_path: Path) -> list[Recording]:
    return [read_recording(file) for file in sorted((tmp_path / "rec").glob("*.json"))]


class OwnLoop(Autotuner):
    """Takes timings in its own loop, over a copy of the candidates."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        best = self.best_of([*self.prune_configs(kwargs)], *args, **kwargs)
        return self.fn.run(*args, **kwargs, **best.all_kwargs())

    def best_of(self, candidates: Any, *args: Any, **kwargs: Any) -> Any:
        return min(candidates, key=lambda one: self._bench(*args, config=one, **kwargs))


class InThreads(OwnLoop):
    """Takes timings in other threads."""

    def best_of(self, candidates: Any, *args: Any, **kwargs: Any) -> Any:
        with ThreadPoolExecutor(2) as pool:
            times = list(pool.map(lambda one: self._bench(*args, config=one, **kwargs), candidates))
        return candidates[times.index(min(times))]


class OwnPruning(Autotuner):
    """Filters what Triton's pruning leaves."""

    def prune_configs(self, kwargs: Any) -> Any:
        return [one for one in super().prune_configs(kwargs) if one.kwargs["BLOCK_M"] < 10**6]


class OwnTiming(Autotuner):
    def _bench(self, *args: Any, **kwargs: Any) -> Any:
        return super()._bench(*args, **kwargs)


@pytest.mark.parametrize("cls", [Autotuner, Counting, OwnLoop, InThreads, OwnPruning, OwnTiming])
@pytest.mark.parametrize("rank", range(RANKS))
def test_no_rank_fails_where_triton_alone_finds_a_config(begin: Any, cls: Any, rank: int) -> None:
    for fitting in SIZES:
        begin(rank, split_repeats=1)
        kernel = Fitting(fitting).kernel(cls=cls)
        launch(kernel, 1, 2, 7)
        assert launched(kernel)[-1] == fitting


@pytest.mark.parametrize("rank", range(RANKS))
def test_what_ran_for_an_earlier_run_and_fails_now_gives_way(begin: Any, rank: int) -> None:
    """The kernel or its libraries have changed since."""
    for one in range(RANKS):
        begin(one)
        launch(Fitting(*SIZES).kernel(), 1, 2, 7)
    begin(rank, run="later")
    kernel = Fitting(256).kernel()
    launch(kernel, 1, 2, 7)
    assert launched(kernel)[-1] == 256


@pytest.mark.parametrize("configs", [None, [*[Config({"BLOCK_M": size}) for size in SIZES], Config({"BLOCK_M": 3.5j})]])
@pytest.mark.parametrize("made", [iter, tuple, list, set, dict.fromkeys])
def test_pruning_may_return_anything_that_triton_can_read(begin: Any, made: Any, configs: Any) -> None:
    def prune(configs: Any, _: Any, **__: Any) -> Any:
        return made(configs)

    def outcome() -> Any:
        kernel = Fitting(*SIZES, 3.5j).kernel(configs=configs, prune_configs_by={"early_config_prune": prune})
        try:
            launch(kernel, 1, 2, 7)
        except TypeError as error:
            return type(error)
        return "launched"

    uninstall()
    stock = outcome()
    for size in (RANKS, 1):
        begin(size=size)
        assert outcome() == stock
        assert not fault_counts()


def test_a_model_of_performance_may_prune(begin: Any) -> None:
    rank_timed = []
    for rank in range(RANKS):
        begin(rank, split_repeats=1)
        fitting = Fitting(*SIZES)
        launch(fitting.kernel(prune_configs_by={"perf_model": lambda **o: -o["BLOCK_M"], "top_k": 8}), 1, 2, 7)
        rank_timed += fitting.timed[:-1]
    assert sorted(rank_timed) == SIZES[2:]


def test_equal_candidates_are_timed_where_their_text_is(begin: Any, tmp_path: Path) -> None:
    twice = [Config({"BLOCK_M": size}) for size in SIZES + SIZES]
    for rank in range(RANKS):
        begin(rank, split_repeats=1)
        launch(Fitting(*SIZES).kernel(configs=twice), 1, 2, 7)
        uninstall()
    timed = [entry for one in recordings(tmp_path) for entry in one.timings[ARCH][NAME].values()]
    assert sum(len(entry.configs) for entry in timed) == len(SIZES)


@pytest.mark.parametrize("kind", ["cut", "text", "empty", "bytes", "deep", "pipe", "folder", "link", "closed", "many"])
def test_whatever_lies_in_the_folder_the_work_is_shared(begin: Any, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "rec"
    file = folder / "r.early.rank0.json"
    for number in range(50 if kind == "many" else 1):
        begin(0, run=f"early{number}", split_repeats=1)
        launch(Fitting(*SIZES).kernel(), 1, 2, 7)
        uninstall()
    (one, *_) = folder.glob("*.json")
    match kind:
        case "cut":
            file.write_bytes(one.read_bytes()[:-20])
        case "text":
            file.write_text("not a recording")
        case "empty":
            file.write_text("")
        case "bytes":
            file.write_bytes(bytes(range(256)))
        case "deep":
            file.write_text("[" * 100_000 + "]" * 100_000)
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "link":
            file.symlink_to(file)
        case "closed":
            file.write_bytes(one.read_bytes())
            file.chmod(0)
    begin(1, run="late", split_repeats=1)
    fitting = Fitting(*SIZES)
    launch(fitting.kernel(), 1, 2, 7)
    assert 2 <= len(fitting.timed) <= 4
    assert not fault_counts()


def test_a_restart_of_the_same_run_is_complete_by_itself(begin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database keeps one recording of each rank of a run."""
    found = []
    for attempt in range(2):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(attempt))
        fittings = [Fitting(*SIZES) for _ in range(RANKS)]
        for rank, fitting in enumerate(fittings):
            begin(rank)
            launch(fitting.kernel(), 1, 2, 7)
        found.append([fitting.timed for fitting in fittings])
    assert found[0] == found[1]


def test_a_folder_that_cannot_be_read_is_looked_at_once(
    begin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = []

    def refuse(_: Path) -> Any:
        looks.append(1)
        raise PermissionError(13, "Permission denied")

    begin(1, split_repeats=1)
    monkeypatch.setattr(Path, "iterdir", refuse)
    monkeypatch.setattr(Path, "is_dir", refuse)
    fitting = Fitting(*SIZES)
    kernel = fitting.kernel()
    for key in range(5):
        launch(kernel, 1, 2, key)
    monkeypatch.undo()
    assert len(looks) <= 2
    assert len(fitting.timed) < 5 * len(SIZES)
    assert "earlier recordings" in caplog.text


def test_what_was_shared_stays_stated_when_sharing_ends(begin: Any, tmp_path: Path) -> None:
    begin(1)
    path = tmp_path / "rec" / "r"
    launch(Fitting(*SIZES).kernel(), 1, 2, 7)
    install(record_path=path, arch=ARCH, run="job", split=3)
    launch(Fitting(*SIZES).kernel(), 1, 2, 8)
    install(record_path=path, arch=ARCH, run="job")
    launch(Fitting(*SIZES).kernel(), 1, 2, 9)
    uninstall()
    (recording,) = recordings(tmp_path)
    _, entries = decode_candidates(recording.header.extra[EXTRA])
    assert len(entries) == 2
    assert list(recording.votes[ARCH][NAME]) == ["M=9"]


@pytest.mark.parametrize("change", ["source", "package", "nothing"])
def test_another_version_of_the_kernel_is_timed_anew(begin: Any, tmp_path: Path, change: str) -> None:
    for rank in range(RANKS):
        begin(rank)
        launch(Fitting(*SIZES).kernel(), 1, 2, 7)
    uninstall()
    for file in (tmp_path / "rec").glob("*.json"):
        document = json.loads(file.read_text())
        assert NAME in document["sources"]
        if change == "package":
            document["modules"], document["packages"] = {"pkg": "pytest"}, {"pytest": "0.0.1"}
        file.write_text(json.dumps(document))
    begin(0, run="later")
    fitting = Fitting(*SIZES)
    kernel = fitting.kernel()
    if change == "source":
        kernel.base_fn.src = "def kernel(x):\n    another"
    launch(kernel, 1, 2, 7)
    assert len(fitting.timed) - 1 == (1 if change == "nothing" else len(SIZES) / 2)


def test_a_forked_child_times_everything_since_it_has_no_rank(begin: Any) -> None:
    begin(1, split_repeats=1)
    launch(Fitting(*SIZES).kernel(), 1, 2, 7)
    child = os.fork()
    if child == 0:
        try:
            fitting = Fitting(*SIZES)
            launch(fitting.kernel(), 1, 2, 8)
            os._exit(0 if len(fitting.timed) == len(SIZES) + 1 and not fault_counts() else 3)
        finally:
            os._exit(4)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_that_tune_at_once_all_find_a_config(begin: Any) -> None:
    begin(1, split_repeats=1)
    kernels = [Fitting(4096).kernel() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda kernel: launch(kernel, 1, 2, 7), kernels)) == ["launched"] * 8
    assert not fault_counts()
