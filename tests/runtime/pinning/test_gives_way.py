"""Configs that do not compile or do not fit: fallbacks give way, entries do not."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    KEY,
    NAME,
    Config,
    Tensor,
    autotuner,
    launch,
    launched,
    only_recording,
    stored,
    three,
    write_table,
)
from tuning_registry.errors import LaunchError
from tuning_registry.runtime import choice_log, coverage_report, install, uninstall


def out_of_resources() -> Any:
    return OutOfResources(300_000, 200_000, "shared memory")


def compile_error() -> Any:
    return CompileTimeAssertionFailure(None, None, "BLOCK_M is too small")


def failing(*sizes: int, error: Callable[[], Any] = out_of_resources) -> Callable[..., None]:
    """The behaviour of a kernel that fails to load with these block sizes."""

    def behave(*args: Any, **kwargs: Any) -> None:
        if kwargs["BLOCK_M"] in sizes:
            raise error()

    return behave


def pin(tmp_path: Path, entries: Any, **fields: Any) -> None:
    path = write_table(tmp_path / "tables", {NAME: entries} if entries else {})
    install(mode="pinned", table_path=path, arch=ARCH, **fields)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "did not run" in r.getMessage()]


@pytest.mark.parametrize("error", [out_of_resources, compile_error])
@pytest.mark.parametrize(
    ("sizes", "fields", "entries", "expected"),
    [
        ((32,), {}, {}, [32, 64]),
        ((32, 64), {}, {}, [32, 64, 128]),
        ((64,), {"block_sizes": {"num_warps": 4, "BLOCK_M": 64}}, {}, [64, 32]),
        ((32,), {"block_sizes": {"num_warps": 4}}, {}, [32, 64]),
        ((128,), {}, {"*": stored(three()[0])}, [128, 32]),
    ],
)
def test_a_config_that_no_vote_chose_gives_way_to_the_next_of_the_rule(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Any, sizes: Any, fields: Any, entries: Any, expected: Any
) -> None:
    pin(tmp_path, entries, **fields)
    kernel = autotuner(behave=failing(*sizes, error=error))
    for _ in range(3):
        assert launch(kernel) == "launched"
    launch(kernel, M=16, y=Tensor(), x=Tensor())  # another form of the call
    assert launched(kernel) == [*expected, *expected[-1:] * 3]
    (warning,) = warnings(caplog)
    assert all(part in warning for part in (NAME, KEY, f"launching BLOCK_M={expected[-1]}"))
    (choice,) = choice_log()
    assert f'"BLOCK_M": {expected[-1]}' in choice.config
    assert coverage_report().faults == {}


def test_the_next_choice_does_not_depend_on_the_order_of_pruning(tmp_path: Path) -> None:
    configs = [Config({"BLOCK_M": size}) for size in (8, 16, 24, 40)]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        prune = {"early_config_prune": lambda c, n, order=order, **k: [c[index] for index in order]}
        pin(tmp_path, {})
        kernel = autotuner(configs, behave=failing(8, 16), prune_configs_by=prune)
        launch(kernel)
        assert launched(kernel) == [8, 16, 24]


def test_an_entry_that_does_not_run_raises_the_original_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pin(tmp_path, {KEY: stored(three()[0])}, record_path=tmp_path / "rec" / "r", run="job")
    kernel = autotuner(behave=failing(128))
    for _ in range(2):
        with pytest.raises(OutOfResources):
            launch(kernel)
    assert launched(kernel) == [128, 128]
    messages = [r.getMessage() for r in caplog.records if "does not run" in r.getMessage()]
    assert all(part in messages[0] for part in ("sm90.json", NAME, KEY, "BLOCK_M=128", "OutOfResources"))
    assert len(messages) == 1
    assert choice_log() == []
    uninstall()
    recording = only_recording(tmp_path / "rec")
    (observation,) = recording.observations[ARCH][NAME].values()
    assert (observation.reason, recording.votes) == ("miss: does not run", {})


def test_if_no_candidate_runs_the_error_is_tritons(tmp_path: Path) -> None:
    pin(tmp_path, {})
    kernel = autotuner(behave=failing(32, 64, 128))
    with pytest.raises(OutOfResources):
        launch(kernel)
    assert launched(kernel) == [32, 64, 128]
    assert choice_log() == []


def test_the_next_choice_is_never_a_banned_one(tmp_path: Path) -> None:
    banned = {"action": "ban", "kernel": NAME, "key": "*", "config": stored(three()[1]), "reason": "wrong"}
    path = write_table(tmp_path, {}, extra={"overrides": [banned]})
    install(mode="pinned", table_path=path, arch=ARCH)
    launch(kernel := autotuner(behave=failing(32)))
    assert launched(kernel) == [32, 128]


def test_an_error_of_the_launch_itself_is_the_callers(tmp_path: Path) -> None:
    pin(tmp_path, {})
    kernel = autotuner(behave=failing(32, error=lambda: RuntimeError("an illegal memory access")))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="illegal memory access"):
            launch(kernel)
    assert launched(kernel) == [32, 32]
    assert choice_log() == []  # a launch that raised is not a choice


def test_where_a_miss_is_an_error_a_star_entry_that_does_not_run_raises(tmp_path: Path) -> None:
    pin(tmp_path, {"*": stored(three()[0])}, on_miss="error")
    kernel = autotuner(behave=failing(128))
    with pytest.raises((OutOfResources, LaunchError)) as caught:
        launch(kernel)
    assert type(caught.value) is OutOfResources
    assert launched(kernel) == [128]
