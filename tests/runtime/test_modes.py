"""Which mode a process ends up in: determinism, the kill switch, installing again."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import logging
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, KEY, NAME, Autotuner, autotuner, launch, launched, stored, three, write_table
from tuning_registry.errors import LaunchError
from tuning_registry.runtime import (
    active_policy,
    choice_log,
    coverage_report,
    install,
    maybe_verify_choices,
    uninstall,
    verify_choices,
)


@pytest.fixture
def torch_flag(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """PyTorch's flag, as a list of one item that a test may change."""
    flag = [False]
    module = types.ModuleType("torch")
    module.are_deterministic_algorithms_enabled = lambda: flag[0]
    module.cuda = types.SimpleNamespace(
        is_available=lambda: False, is_initialized=lambda: False, is_current_stream_capturing=lambda: False
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return flag


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "tables", {NAME: {KEY: stored(three()[0])}})


def test_the_flag_counts_until_the_first_launch(
    table: Path, torch_flag: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert install(table_path=table, arch=ARCH, verify_every=3).mode == "auto"
    torch_flag[0] = True
    kernel = autotuner()
    for _ in range(2):
        launch(kernel)
    assert (launched(kernel), kernel.timer.calls) == ([128, 128], 0)
    assert active_policy().mode == "pinned"  # type: ignore[union-attr]
    assert "never called" not in caplog.text  # the end of a policy, which this is not
    assert "nothing was tuned" not in caplog.text


def test_a_flag_after_the_first_launch_changes_nothing(table: Path, torch_flag: list[bool]) -> None:
    original = Autotuner.run
    install(table_path=table, arch=ARCH)
    launch(autotuner())
    assert Autotuner.run is original  # Triton's own launch path from here on
    torch_flag[0] = True
    launch(kernel := autotuner())
    assert kernel.timer.calls == 3
    uninstall()
    assert Autotuner.run is original


@pytest.mark.parametrize(("argument", "flag", "mode"), [(False, True, "pinned"), (True, False, "pinned"), (None, True, "pinned"),
                                                        (False, False, "auto"), (None, False, "auto")])  # fmt: skip
def test_the_flag_and_the_argument_are_ored(torch_flag: list[bool], argument: Any, flag: bool, mode: str) -> None:
    torch_flag[0] = flag
    assert install(arch=ARCH, deterministic=argument).mode == mode


def test_a_stated_mode_is_not_changed_by_the_flag(torch_flag: list[bool]) -> None:
    install(mode="auto", arch=ARCH)
    torch_flag[0] = True
    launch(kernel := autotuner())
    assert kernel.timer.calls == 3


def test_a_flag_that_requests_pinning_from_a_broken_table_refuses_the_launch(
    tmp_path: Path, torch_flag: list[bool]
) -> None:
    install(table_path=tmp_path / "tablez", arch=ARCH)
    torch_flag[0] = True
    kernel = autotuner()
    for _ in range(2):
        with pytest.raises(LaunchError, match="tablez does not exist"):
            launch(kernel)
    assert kernel.fn.launches == []


@pytest.mark.parametrize("spelling", ["off", " OFF "])
@pytest.mark.parametrize("mode", ["pinned", "auto", "record"])
def test_off_in_the_environment_turns_off_what_a_script_installs(
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: str,
    spelling: str,
) -> None:
    original = Autotuner.run
    monkeypatch.setenv("TUNING_REGISTRY_MODE", spelling)
    assert install().mode == "off"
    fields: Any = {"pinned": {"table_path": table}, "record": {"record_path": tmp_path / "r"}, "auto": {}}[mode]
    assert install(mode=mode, arch=ARCH, chaos=True, verify_every=3, **fields).mode == "off"
    assert Autotuner.run is original
    launch(kernel := autotuner())
    assert kernel.timer.calls == 3
    assert "off: nothing is recorded, pinned or watched" in caplog.text
    assert choice_log() == []
    assert verify_choices().compared == 0
    assert maybe_verify_choices(3) is not None  # takes part in collectives, so that other ranks do not hang
    uninstall()
    assert list(tmp_path.glob("r*")) == []


def test_auto_in_the_environment_does_not_change_what_a_script_installs(
    table: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TUNING_REGISTRY_MODE", "auto")
    assert install(mode="pinned", table_path=table, arch=ARCH).mode == "pinned"
    assert "ignored: TUNING_REGISTRY_MODE" in caplog.text


def test_installing_an_equal_policy_again_keeps_its_choices(table: Path) -> None:
    for path in (table, str(table)):
        install(mode="pinned", table_path=path, arch=ARCH)
        launch(autotuner())
        launch(autotuner(name="other"))
    assert len(choice_log()) == 2
    assert len(coverage_report().misses) == 1


@pytest.mark.parametrize("as_folder", [False, True])
def test_installing_an_equal_policy_again_reads_a_changed_table(table: Path, as_folder: bool) -> None:
    for index in (0, 2):
        write_table(table.parent, {NAME: {KEY: stored(three()[index])}})
        install(mode="pinned", table_path=table.parent if as_folder else table, arch=ARCH)
        launch(kernel := autotuner())
        assert launched(kernel) == [three()[index].kwargs["BLOCK_M"]]


@pytest.mark.parametrize("is_called", [False, True])
def test_an_interval_of_checks_that_are_never_called_is_a_warning(
    caplog: pytest.LogCaptureFixture, is_called: bool
) -> None:
    install(mode="auto", verify_every=10)
    if is_called:
        maybe_verify_choices(3)
    uninstall()
    assert ("never called maybe_verify_choices" in caplog.text) != is_called


@pytest.mark.parametrize(
    ("sizes", "unknown"), [({"BLOCK_M": 32}, ""), ({"NOT_A_BLOCK": 32, "num_warps": 4}, "NOT_A_BLOCK"),
                           ({"kernel": {"BLOCK_M": 32, "BLOCK_X": 3}}, "BLOCK_X")])  # fmt: skip
def test_block_sizes_that_no_kernel_has_are_named_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sizes: Any, unknown: str
) -> None:
    install(mode="pinned", table_path=tmp_path, arch=ARCH, block_sizes=sizes)
    launch(autotuner())
    uninstall()
    assert (f"block_sizes names {unknown}, which no launched kernel has" in caplog.text) == bool(unknown)


def test_enumerated_autotuners_are_visible_without_a_log_setup(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("tuning_registry").setLevel(logging.NOTSET)
    with caplog.at_level(logging.WARNING):
        install(mode="auto", enumerate_autotuners=True)
        launch(autotuner())
    assert f"autotuner {NAME} (3 candidates): timed" in caplog.text
