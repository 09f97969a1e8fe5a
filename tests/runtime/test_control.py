"""Installing a policy: from keywords, for the length of a block, and back."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (
    ARCH,
    KEY,
    NAME,
    Tensor,
    autotuner,
    launch,
    launched,
    only_recording,
    stored,
    three,
    triton,
    write_table,
)
from tuning_registry.errors import FormatError, PolicyError
from tuning_registry.runtime import (
    AutotunePolicy,
    active_policy,
    choice_log,
    coverage_report,
    install,
    installed,
    uninstall,
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "tables", {NAME: {KEY: stored(three()[0])}})


def test_keywords_are_the_fields_of_a_policy(table: Path) -> None:
    expected = AutotunePolicy(mode="pinned", table_path=table, arch=ARCH)
    assert install(mode="pinned", table_path=table, arch=ARCH) == expected
    assert install({"mode": "pinned", "table_path": table}, arch=ARCH) == expected
    assert install(AutotunePolicy(mode="auto", table_path=table), mode="pinned", arch=ARCH) == expected
    assert active_policy() == expected


def test_a_keyword_may_set_a_field_of_a_policy_back_to_its_default() -> None:
    assert install(AutotunePolicy(chaos=True, arch=ARCH), chaos=False).chaos is False


def test_keywords_alone_do_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNING_REGISTRY_SOURCE", "from the environment")
    assert install(mode="auto").source is None
    assert install().source == "from the environment"


@pytest.mark.parametrize(("fields", "error"), [({"tabel_path": "x"}, FormatError), ({"mode": "pin"}, FormatError),
                                               ({"mode": "pinned", "table_path": "/no/such/table"}, PolicyError)])  # fmt: skip
def test_wrong_keywords_leave_the_policy_before(fields: Any, error: Any) -> None:
    before = install(mode="auto")
    with pytest.raises(error):
        install(**fields)
    with pytest.raises(error), installed(**fields):
        pytest.fail("the body ran")
    assert active_policy() is before


def test_a_block_without_a_policy_before_leaves_none(table: Path) -> None:
    run = triton.runtime.Autotuner.run
    kernel = autotuner()
    with installed(mode="pinned", table_path=table, arch=ARCH) as policy:
        assert active_policy() is policy
        launch(kernel)
        assert [choice.source for choice in choice_log()] == ["table"]
    assert active_policy() is None
    assert triton.runtime.Autotuner.run is run
    assert (launched(kernel), kernel.timer.calls) == ([128], 0)


def test_a_policy_goes_on_after_a_block_with_its_choices_and_misses(table: Path, tmp_path: Path) -> None:
    kernel = autotuner()
    before = install(mode="pinned", table_path=table, arch=ARCH)
    launch(kernel)
    launch(kernel, Tensor(), Tensor(), 32)
    with installed(mode="record", record_path=tmp_path / "rec" / "r", run="job", arch=ARCH):
        assert choice_log() == []
        launch(kernel)
        assert kernel.timer.calls == 3
    assert active_policy() is before
    assert [choice.source for choice in choice_log()] == ["table", "nearest"]
    assert coverage_report().miss_counts == {"no key": 1}
    launch(kernel)
    assert (launched(kernel)[-1], kernel.timer.calls) == (128, 3)
    assert len(only_recording(tmp_path / "rec").votes["sm90"][NAME]) == 1


def test_blocks_nest(table: Path) -> None:
    with installed(mode="auto", source="outer") as outer:
        with installed(mode="pinned", table_path=table, arch=ARCH) as inner:
            with installed(mode="auto", source="innermost"):
                uninstall()
                assert active_policy() is None
            assert active_policy() is inner
        assert active_policy() is outer
    assert active_policy() is None


def test_blocks_of_several_threads_overlap(table: Path) -> None:
    """Whatever the order of their ends, no policy is in force after its block."""
    outer = install(mode="auto", source="outer")
    first, second, third = (installed(mode="pinned", table_path=table, arch=ARCH, source=name) for name in "123")
    first.__enter__()
    last = second.__enter__()
    third.__enter__()
    first.__exit__(None, None, None)
    third.__exit__(None, None, None)
    assert active_policy() == last
    second.__exit__(None, None, None)
    assert active_policy() is outer


def test_the_recording_of_a_block_that_another_outlives_is_finished(tmp_path: Path) -> None:
    first = installed(record_path=tmp_path / "r", run="job", arch=ARCH)
    first.__enter__()
    launch(autotuner())
    with installed(mode="auto"):
        first.__exit__(None, None, None)
        assert len(only_recording(tmp_path).votes[ARCH]) == 1
    assert active_policy() is None


def test_an_exception_ends_a_block_and_passes_through() -> None:
    with pytest.raises(KeyError), installed(mode="auto"):
        raise KeyError
    assert active_policy() is None


def test_a_recording_goes_on_after_a_block(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    install(record_path=tmp_path / "r", run="job", arch=ARCH)
    launch(autotuner(name="first"))
    with installed(mode="auto"):
        launch(autotuner(name="unrecorded"))
    launch(autotuner(name="second"))
    uninstall()
    assert sorted(only_recording(tmp_path).votes[ARCH]) == ["pkg.ops.first", "pkg.ops.second"]
    assert [r.getMessage() for r in caplog.records if "recorded 2 votes" in r.getMessage()] != []
