"""Jobs that do what few do: handlers that raise or launch, broken packages, classes with a life of their own."""

# ruff: noqa: ARG002 - fakes take what Triton passes

# mypy: disable-error-code="assignment, misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import gc
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (
    ARCH,
    KEY,
    Autotuner,
    Tensor,
    autotuner,
    launch,
    launched,
    only_recording,
    stored,
    three,
    write_table,
)
from tests.runtime.recording.helpers import CONFIGS, entry, files, into_database, made
from tests.runtime.test_process import python
from tuning_registry.errors import LaunchError, PolicyError
from tuning_registry.formats.recordings import read_recording
from tuning_registry.runtime import AutotunePolicy, coverage_report, install, uninstall
from tuning_registry.runtime.guard import count_fault
from tuning_registry.runtime.recording import notes
from tuning_registry.runtime.recording.owners import Owners

NAME = "pkg.ops.kernel"


def record(tmp_path: Path) -> None:
    install(AutotunePolicy(record_path=tmp_path / "rec" / "r", arch=ARCH, run="job"))


def pin(tmp_path: Path, **fields: Any) -> None:
    path = write_table(tmp_path / "tables", {NAME: {"*": stored(three()[0])}})
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH, **fields))


SIGNALLED = """
import os, signal
from tests.runtime.fakes import ARCH, Tensor, autotuner, launch
from tuning_registry.runtime import install, uninstall
inner, outer, is_busy = autotuner(name="inner"), autotuner(name="outer"), []

def launch_too(*_):
    if not is_busy:
        is_busy.append(True)
        launch(inner, Tensor(), Tensor(), len(inner.cache))
        is_busy.clear()

install({"record_path": "rec/r", "arch": ARCH, "run": "job"})
signal.signal(signal.SIGALRM, launch_too)
for size in range(300):
    # One signal a launch, at another place in each: a timer that goes on by itself could outrun a slow machine.
    signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + size % 40))
    launch(outer, Tensor(), Tensor(), size)
signal.setitimer(signal.ITIMER_REAL, 0)
uninstall()
print(len(outer.cache), len(inner.cache), flush=True)
os._exit(0)
"""


def test_a_signal_handler_that_launches_in_the_middle_of_a_launch_does_not_wait_for_it(tmp_path: Path) -> None:
    ended = python("-c", SIGNALLED, cwd=tmp_path)
    votes = only_recording(tmp_path / "rec").votes[ARCH]
    counts = [len(votes[f"pkg.ops.{name}"]) for name in ("outer", "inner")]
    assert counts == [300, counts[1]]
    assert ended.stdout.split() == list(map(str, counts))


def test_a_launch_waits_for_nobody_who_reads_or_begins_the_recording(tmp_path: Path) -> None:
    recorder = made(tmp_path)
    done = threading.Event()
    assert recorder._notes._lock.acquire()
    assert recorder._writer._start_lock.acquire()

    def launch_once() -> None:
        recorder.vote(entry(), CONFIGS[0], [], [])
        done.set()

    threading.Thread(target=launch_once, daemon=True).start()
    assert done.wait(10)
    recorder._notes._lock.release()
    recorder._writer._start_lock.release()
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.finish()
    assert len(read_recording(files(tmp_path)[0]).votes["sm90"]["pkg.kernel"]) == 2


class Raising(logging.Handler):
    def emit(self, record: Any) -> None:
        raise OSError("log server away")


@pytest.fixture
def log_server_away() -> Iterator[None]:
    handler = Raising()
    logging.getLogger("tuning_registry").addHandler(handler)
    yield
    logging.getLogger("tuning_registry").removeHandler(handler)


@pytest.mark.usefixtures("log_server_away")
def test_a_log_handler_that_raises_reaches_no_launch(tmp_path: Path, monkeypatch: Any) -> None:
    table = write_table(tmp_path, {"pkg.ops.other": {KEY: stored(three()[0])}}, triton="3.0.1")
    install(AutotunePolicy(mode="pinned", table_path=(table, tmp_path / "none"), arch=ARCH, record_path=tmp_path / "r"))
    missing, hit = autotuner(), autotuner(name="other")
    launch(missing)
    launch(hit)
    assert (launched(missing), launched(hit)) == ([32], [128])
    assert coverage_report().faults == {}
    record(tmp_path)
    monkeypatch.setattr(notes.Notes, "vote", lambda *_: 1 / 0)
    launch(autotuner(name="third"))
    assert coverage_report().faults == {"watching a tuning": 1}


def test_text_from_names_and_keys_cannot_drive_a_terminal_out_of_the_log(tmp_path: Path, caplog: Any) -> None:
    pin(tmp_path)
    launch(autotuner(name="bad\nname\x1b[31m", key=("M",)), Tensor(), Tensor(), "a\r\nb")
    said = [record.getMessage() for record in caplog.records]
    assert any("bad\\nname\\x1b[31m" in message for message in said)
    assert all(message.isprintable() for message in said)
    assert all(line.isprintable() for line in str(coverage_report()).split("\n"))


class Slotted(Autotuner):
    """Keeps what its pruning reads in a slot."""

    __slots__ = ("limit",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.limit = 2

    def prune_configs(self, kwargs: Any) -> Any:
        return super().prune_configs(kwargs)[: self.limit]


class Counting(Autotuner):
    """Its `run` reads what its pruning has set."""

    def prune_configs(self, kwargs: Any) -> Any:
        pruned = super().prune_configs(kwargs)
        self.pruned_to = len(pruned)
        return pruned

    def run(self, *args: Any, **kwargs: Any) -> Any:
        super().run(*args, **kwargs)
        return self.pruned_to


class Ending(Autotuner):
    """Frees something at its end."""

    ended: list[str] = []  # noqa: RUF012

    def __del__(self) -> None:
        self.ended.append("ended")


class Shy(Autotuner):
    """Answers for no attribute that it does not have."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Halving(Autotuner):
    """Its pruner, one of its methods, does without the call's arguments where it has none."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.early_config_prune = self.halve

    def halve(self, configs: Any, named: Any, **_: Any) -> Any:
        return configs[:2] if self.nargs else configs


class Local(Autotuner, threading.local):
    """Its class has a base in C, of which no bare copy can be made."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)


class Tallying(Autotuner):
    """Counts in a slot what its pruner, which knows the live object, adds."""

    __slots__ = ("tally",)


class Once(Autotuner):
    """Prunes with something that a copy cannot have."""

    def prune_configs(self, kwargs: Any) -> Any:
        if self is not self.me:
            raise ValueError("not me")
        return super().prune_configs(kwargs)


def test_the_pruning_of_a_subclass_finds_and_keeps_its_state(tmp_path: Path) -> None:
    pin(tmp_path)
    kernels = []
    for kind, answer in (
        (Slotted, "launched"),
        (Counting, 3),
        (Shy, "launched"),
        (Ending, "launched"),
        (Once, "launched"),
    ):
        kernel = autotuner(cls=kind)
        kernels.append(kernel)
        if kind is Once:
            kernel.me = kernel
        assert [launch(kernel) for _ in range(2)] == [answer] * 2
        assert (launched(kernel), kernel.timer.calls) == ([128, 128], 0)
    gc.collect()
    assert Ending.ended == []
    assert coverage_report().faults == {}


def test_a_pruner_that_is_a_method_of_the_autotuner_is_asked_as_triton_does(tmp_path: Path) -> None:
    configs = three()
    path = write_table(tmp_path / "tables", {NAME: {"*": stored(configs[2])}})
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH))
    halving = autotuner(configs, cls=Halving)
    for size in (1, 2, 3):
        launch(halving, Tensor(), Tensor(), size)
    assert launched(halving) == [64] * 3  # what the table names is pruned away: the cheapest of the two that are left
    local = autotuner(cls=Local)
    assert launch(local) == "launched"
    tallying = autotuner(
        cls=Tallying, prune_configs_by={"early_config_prune": lambda configs, *_, **__: tally(configs)}
    )
    tallying.tally = 0

    def tally(configs: Any) -> Any:
        tallying.tally += 1
        return configs

    launch(tallying)
    assert tallying.tally == 1


def test_an_error_of_a_users_pruning_comes_out_as_without_us(tmp_path: Path) -> None:
    def prune(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("of the user")

    pin(tmp_path)
    kernel = autotuner(prune_configs_by={"early_config_prune": prune})
    with pytest.raises(ZeroDivisionError, match="of the user"):
        launch(kernel)
    assert kernel.nargs is None


def test_numpy_scalars_are_keys_like_the_numbers_they_hold(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    key = "M=16|torch.float32|torch.float32|int64"
    asked: list[int] = []

    def prune(configs: Any, *_: Any, **__: Any) -> Any:
        asked.append(1)
        return configs

    path = write_table(tmp_path, {NAME: {key: stored(three()[1])}})
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH, on_miss="error"))
    kernel = autotuner(prune_configs_by={"early_config_prune": prune})
    for _ in range(3):
        launch(kernel, Tensor(), Tensor(), numpy.int64(16))
    assert (launched(kernel), len(asked)) == ([64] * 3, 1)
    record(tmp_path)
    launch(autotuner(), Tensor(), Tensor(), numpy.int64(16))
    launch(autotuner(name="long"), Tensor(), Tensor(), numpy.longdouble(1))  # no Python number holds it
    uninstall()
    assert {kernel: list(keys) for kernel, keys in only_recording(tmp_path / "rec").votes[ARCH].items()} == {
        NAME: [key]
    }


def package(folder: Path, name: str, version: str | None, owns: str, record: bytes = b"") -> None:
    info = folder / f"{name}-{version or 0}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\n" + (f"Version: {version}\n" if version else "")
    )
    (info / "RECORD").write_bytes(record or f"{owns}/__init__.py,,\n".encode())


def test_a_broken_package_costs_only_its_own_version(tmp_path: Path, monkeypatch: Any) -> None:
    package(tmp_path, "broken", None, "broke")
    package(tmp_path, "garbled", "1.0", "garbled", b"\xff\xfe/x.py,,\n")
    package(tmp_path, "whole", "1.5", "whole")
    monkeypatch.syspath_prepend(tmp_path)
    owners = Owners()
    kernels = ["broke.kernel", "garbled.kernel", "whole.kernel"]
    owners.find(kernels)
    assert owners.known(kernels) == ({"whole": "1.5"}, {"whole": "whole"})
    assert not owners.miss(kernels)  # and it is not looked for again


def test_of_two_installed_versions_the_one_that_is_imported_counts(tmp_path: Path, monkeypatch: Any) -> None:
    package(tmp_path / "system", "pkg-x", "1.0", "pkgx")
    package(tmp_path / "user", "pkg_x", "2.0", "pkgx")
    for folder in ("system", "user"):
        monkeypatch.syspath_prepend(tmp_path / folder)
    owners = Owners()
    owners.find(["pkgx.kernel"])
    assert owners.known(["pkgx.kernel"])[0].popitem()[1] == "2.0"


def test_a_name_that_no_recording_can_hold_costs_only_itself(tmp_path: Path, caplog: Any) -> None:
    recorder = made(tmp_path)
    for kernel in ("pkg.k\ud800", "m" * 1200 + ".kernel", "pkg.kernel"):
        recorder.vote(entry(0, kernel), CONFIGS[0], [], [])
    recorder.finish()
    assert list(read_recording(files(tmp_path)[0]).votes["sm90"]) == ["pkg.kernel"]
    assert len([r for r in caplog.records if "a recording cannot hold" in r.getMessage()]) == 2


def test_what_is_launched_after_the_recording_ended_is_said_to_be_lost(tmp_path: Path, caplog: Any) -> None:
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.observe(entry(2), None, "single candidate")
    recorder.attend()
    assert len([r for r in caplog.records if "after the recording was finished" in r.getMessage()]) == 1


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_without_a_text_is_logged_by_its_type_and_a_traceback_is_inert(caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    count_fault("trying", WordlessError())
    count_fault("looking", ValueError("bad\x1b[2J"))
    said = [record.getMessage() for record in caplog.records]
    assert any("trying failed" in message and "<WordlessError>" in message for message in said)
    assert all(line.isprintable() for message in said for line in message.split("\n"))


def test_a_recording_that_is_still_being_finished_is_waited_for_after_another_install(
    tmp_path: Path, monkeypatch: Any
) -> None:
    recorder = made(tmp_path)
    recorder.vote(entry(0), CONFIGS[0], [], [])
    recorder.vote(entry(1), CONFIGS[0], [], [])
    release = threading.Event()
    real = recorder._file.write

    def slowly(*arguments: Any) -> Any:
        assert release.wait(20)
        return real(*arguments)

    monkeypatch.setattr(recorder._file, "write", slowly)
    recorder.finish(0.01)  # uninstall goes on after a while
    recorder.resume()  # another install, and nothing is launched
    threading.Timer(0.3, release.set).start()
    recorder.finish()  # the exit
    assert len(read_recording(files(tmp_path)[0]).votes["sm90"]["pkg.kernel"]) == 2


def test_what_a_second_install_adds_takes_the_place_of_what_the_database_has_of_this_process(monkeypatch: Any) -> None:
    fake, recorder = into_database(monkeypatch, [None])
    recorder.resume()
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.finish()
    assert fake.replaces == [False, True]
    assert [len(recording.votes["sm90"]["pkg.kernel"]) for recording in fake.recordings] == [1, 2]


def test_a_second_job_under_a_prefix_too_long_for_a_file_name_is_a_separate_run(tmp_path: Path) -> None:
    prefix = tmp_path / ("p" * 240)
    for _ in range(2):
        install(AutotunePolicy(record_path=prefix, arch=ARCH, run="job", source=str(_)))
        launch(autotuner())
        uninstall()
    runs = {read_recording(file).header.run for file in tmp_path.glob("*.json")}
    assert len(runs) == 2


def test_kernels_that_on_miss_refuses_are_enumerated(tmp_path: Path) -> None:
    pin(tmp_path, on_miss="error")
    with pytest.raises(LaunchError):
        launch(autotuner(name="absent"))
    assert coverage_report().reached == {"pkg.ops.absent": "refused"}


def test_a_table_path_that_cannot_serve_the_stated_arch_is_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}})
    with pytest.raises(PolicyError, match="is for sm90, but the policy's arch is sm80"):
        install(AutotunePolicy(mode="pinned", table_path=path, arch="sm80"))
    other = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}}, arch="sm80")
    install(AutotunePolicy(mode="pinned", table_path=(path, other), arch="sm80"))  # one of them can
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PolicyError, match="neither a folder nor a file"):
        install(AutotunePolicy(mode="pinned", table_path=tmp_path / "pipe"))


@pytest.mark.parametrize("given", [["--", "a", "--", "b"], ["a", "--"], ["--"], []])
def test_the_command_leaves_the_scripts_own_arguments_alone(given: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import os, sys; os.chdir('/'); print(sys.argv[1:], os.path.exists(__file__))")
    ended = python("-m", "tuning_registry.runtime", "--mode", "auto", "job.py", *given, cwd=tmp_path)
    assert ended.stdout == f"{given} True\n"
    assert ended.stdout == python("job.py", *given, cwd=tmp_path).stdout


@pytest.mark.parametrize("module", ["builtins", ".pack", "sys"])
def test_a_module_without_code_is_wrong_usage(module: str, tmp_path: Path) -> None:
    ended = python("-m", "tuning_registry.runtime", "--mode", "auto", "-m", module, cwd=tmp_path, check=False)
    (error,) = [line for line in ended.stderr.splitlines() if not line.startswith("tuning_registry: ")]
    assert (ended.returncode, error) == (2, f"python -m tuning_registry.runtime: no module named {module}")


def test_no_password_is_shown_by_a_policy() -> None:
    policy = AutotunePolicy(record_path="postgresql://me@srv:S3?CRET@host/db?password=S3CRET2", run="job")
    assert "CRET" not in repr(policy)
    assert "run='job'" in repr(policy)
