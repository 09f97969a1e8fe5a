"""Each test starts without a policy, without our variables, and with Triton's own functions."""

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tuning_registry.runtime import uninstall
from tuning_registry.runtime.guard import reset_faults
from tuning_registry.runtime.job import place
from tuning_registry.runtime.recording.background_writer import THREAD_NAME, BackgroundWriter
from tuning_registry.runtime.recording.recorders import forget_recorders


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "gpu: needs a GPU, and is skipped visibly without one")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Have the option of tests/conftest.py, which is not loaded with `--confcutdir tests/runtime`."""
    with contextlib.suppress(ValueError):
        parser.addoption("--rewrite-golden", action="store_true", help="rewrite golden files that differ")


@pytest.fixture(autouse=True)
def clean_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    launchers = ("TUNING_REGISTRY_", "SLURM_", "TORCHELASTIC_", "OMPI_", "PMI_", "PMIX_", "TRITON_CACHE_AUTOTUNING")
    for name in list(os.environ):
        if name.startswith(launchers) or name in {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    reset_faults()
    monkeypatch.setattr(place, "_memory", place._Memory())
    yield
    uninstall()
    stop_writers()
    forget_recorders()
    reset_faults()
    assert (
        "triton" not in sys.modules or "tuning_registry" not in sys.modules["triton"].runtime.Autotuner.run.__module__
    )


def stop_writers() -> None:
    """Stop the background writers that a test did not finish, or they would act in the next test."""
    if any(thread.name == THREAD_NAME for thread in threading.enumerate()):
        for thing in gc.get_objects():
            if type(thing) is BackgroundWriter:
                thing.stop()


@pytest.fixture
def alone() -> None:
    """No autotuner of an earlier test is alive: reports walk all live objects."""
    gc.collect()
