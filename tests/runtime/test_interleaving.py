"""Launches and tunings that meet: threads, forks, signal handlers, tunings inside tunings, policies that take turns."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    NAME,
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
from tests.runtime.test_process import python
from tuning_registry.runtime import AutotunePolicy, choice_log, install, uninstall
from tuning_registry.runtime.triton.adapter import Adapter

ROOT = Path(__file__).parents[2]


def pruned_by(prune: Callable[..., Any], **options: Any) -> Any:
    return autotuner(prune_configs_by={"early_config_prune": prune}, **options)


def policy(tmp_path: Path, index: int) -> AutotunePolicy:
    """A policy that pins every kernel of the name to one of the three candidates."""
    path = write_table(tmp_path / f"tables{index}", {NAME: {"*": stored(three()[index])}})
    return AutotunePolicy(mode="pinned", table_path=path, arch=ARCH)


def record(tmp_path: Path) -> None:
    install(AutotunePolicy(record_path=tmp_path / "rec" / "r", arch=ARCH, run="job"))


def together(*calls: Callable[[], object]) -> None:
    """Run the calls in a thread each."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_pruner_may_wait_for_another_threads_first_launch() -> None:
    inside, launched_other, answers = threading.Event(), threading.Event(), []

    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        inside.set()
        answers.append(launched_other.wait(10))
        return configs

    def other() -> None:
        inside.wait(10)
        launch(autotuner(name="other"))
        launched_other.set()

    install(AutotunePolicy(mode="pinned", arch=ARCH))
    kernel = pruned_by(prune)
    together(lambda: launch(kernel), other)
    assert answers == [True]


def test_a_child_that_was_forked_during_another_threads_first_launch_launches() -> None:
    inside, leave = threading.Event(), threading.Event()

    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        inside.set()
        leave.wait(30)
        return configs

    install(AutotunePolicy(mode="pinned", arch=ARCH))
    kernel, other = pruned_by(prune), autotuner(name="other")
    thread = threading.Thread(target=launch, args=(kernel,))
    thread.start()
    assert inside.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if launch(other) == "launched" else 1)
    ended = 0
    for _ in range(1000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    leave.set()
    thread.join(30)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("mode", ["pinned", "auto"])
def test_a_signal_handler_may_launch_whatever_it_interrupts(mode: str) -> None:
    """Before, a handler that came while one of our locks was held waited for it for ever."""
    script = """
        import logging, random, signal, sys
        from tests.runtime.fakes import Tensor, autotuner, launch
        from tuning_registry.runtime import coverage_report, install
        logging.getLogger("tuning_registry").setLevel(logging.CRITICAL)
        install({"mode": sys.argv[1], "arch": "sm90"})
        kernel, save, calls = autotuner(), autotuner(name="save"), [0]
        launch(kernel)
        def handler(*_):
            calls[0] += 1
            launch(save, Tensor(), Tensor(), calls[0])
            if calls[0] < 500:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.001))
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        size = 0
        while calls[0] < 500:
            size += 1
            launch(kernel, Tensor(), Tensor(), size)
        assert not coverage_report().faults, coverage_report().faults
    """
    command = [sys.executable, "-c", textwrap.dedent(script), mode]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_threads_that_prune_one_kernel_at_once_each_see_their_own_arguments(tmp_path: Path) -> None:
    meet, seen = threading.Barrier(2), []

    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        before = named["M"]
        meet.wait(10)
        seen.append((before, kernel.nargs, named["M"]))
        return configs

    kernel = pruned_by(prune)
    kernel.nargs = None
    install(policy(tmp_path, 0))
    together(lambda: launch(kernel, Tensor(), Tensor(), 1), lambda: launch(kernel, Tensor(), Tensor(), 2))
    assert sorted(seen) == [(1, None, 1), (2, None, 2)]
    assert launched(kernel) == [128, 128]


def test_of_two_threads_that_decide_a_key_the_first_decides_for_both(tmp_path: Path) -> None:
    meet, kept = threading.Barrier(2), []

    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        meet.wait(10)
        return three()  # new objects at each pruning: an equal one each, but one is to be launched from now on

    kernel = pruned_by(prune)
    install(policy(tmp_path, 1))
    together(lambda: launch(kernel), lambda: launch(kernel))
    for _ in range(2):
        launch(kernel)
        kept.append(kernel.best_config)
    assert kept[0] is kept[1]
    assert launched(kernel) == [64] * 4


def test_a_policy_takes_the_place_of_another_with_no_timing_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, fresh = autotuner(), autotuner()
    detach = Adapter.detach

    def detach_and_launch(self: Any, *args: Any) -> None:
        launch(fresh)
        detach(self, *args)
        launch(fresh)
        launch(kernel)

    install(policy(tmp_path, 0))
    launch(kernel)
    monkeypatch.setattr(Adapter, "detach", detach_and_launch)
    install(policy(tmp_path, 2))
    monkeypatch.undo()
    assert (fresh.timer.calls, kernel.timer.calls) == (0, 0)
    assert launched(fresh) == [32, 32]
    assert launched(kernel) == [128, 32]


def test_a_launch_that_is_under_way_when_the_policy_is_replaced_is_pinned_and_leaves_no_pin(tmp_path: Path) -> None:
    late = autotuner()

    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        if not kernel.fn.launches:
            install(policy(tmp_path, 2))
        return configs

    kernel = pruned_by(prune)
    install(policy(tmp_path, 0))
    entered = Autotuner.run
    launch(kernel)  # the policy before decides what it had begun to decide
    launch(kernel)
    entered(late, Tensor(), Tensor(), 16, grid=(1,), warmup=False)  # ... and the new one what it had not
    assert (launched(kernel), launched(late)) == ([128, 32], [32])
    assert (kernel.timer.calls, late.timer.calls) == (0, 0)
    uninstall()
    entered(late, Tensor(), Tensor(), 16, grid=(1,), warmup=False)
    assert late.timer.calls == 3
    for tuned in (kernel, late):
        assert not [name for name in vars(tuned) if "tuning_registry" in name]


def test_kernels_that_threads_tune_at_once_all_vote(tmp_path: Path) -> None:
    """Triton calls the tuner's hook once more between the last timing and its listener; the other thread ends then."""
    measured, other_done = threading.Event(), threading.Event()

    def hook(arguments: Any, reset_only: bool = False) -> None:
        if reset_only:
            measured.set()
            other_done.wait(10)

    def other() -> None:
        measured.wait(10)
        launch(autotuner(name="other"))
        other_done.set()

    record(tmp_path)
    kernel = autotuner(pre_hook=hook)
    together(lambda: launch(kernel), other)
    uninstall()
    assert sorted(only_recording(tmp_path / "rec").votes[ARCH]) == [NAME, "pkg.ops.other"]


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_kernel_that_is_tuned_inside_anothers_tuning_votes_as_the_other_does(
    tmp_path: Path, at_the_end: bool
) -> None:
    fill = autotuner(name="fill")

    def hook(arguments: Any, reset_only: bool = False) -> None:
        if reset_only or not at_the_end:
            launch(fill)

    record(tmp_path)
    launch(autotuner(pre_hook=hook))
    uninstall()
    assert sorted(only_recording(tmp_path / "rec").votes[ARCH]) == ["pkg.ops.fill", NAME]


def test_a_kernel_that_is_tuned_inside_anothers_pruning_is_seen(tmp_path: Path) -> None:
    inner = autotuner(name="inner")

    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        launch(inner)
        return configs

    install(AutotunePolicy(mode="pinned", arch=ARCH, config_invariant=("inner",)))
    launch(pruned_by(prune))
    assert [(choice.kernel, choice.source) for choice in choice_log()] == [
        ("pkg.ops.inner", "timed"), (NAME, "min_cost")]  # fmt: skip


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
