"""Audited tunings on a CPU: Triton's real Autotuner over functions that write into torch's tensors."""

# mypy: disable-error-code="import-untyped, import-not-found"
# (torch comes without types, or not at all.)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.runtime.fakes import ARCH, Timer, autotuner, only_recording  # noqa: E402  # what needs torch waits for it
from tuning_registry.formats.audits import read_audits  # noqa: E402  # likewise
from tuning_registry.model.audits import AuditedEntry  # noqa: E402  # likewise
from tuning_registry.runtime import install, uninstall  # noqa: E402  # likewise


def recorded(folder: Path, kernel: Any, *args: Any, name: str = "r", **options: Any) -> AuditedEntry:
    """The audit of one launch of a kernel, as its recording holds it."""
    kwargs = options.pop("kwargs", {})
    install(record_path=folder / name / "rec", arch=ARCH, run="job", audit=options.pop("audit", True), **options)
    kernel[(1,)](*args, **kwargs)
    uninstall()
    audits = read_audits(only_recording(folder / name).header.extra)
    (entry,) = [entry for kernels in audits.values() for keys in kernels.values() for entry in keys.values()]
    return entry


def kernel(behave: Any, **options: Any) -> Any:
    """An autotuner with BLOCK_M 128, 64 and 32 over a function that writes into its tensors; each is timed once."""
    options.setdefault("timer", Timer([3.0, 1.0, 2.0]))
    return autotuner(behave=behave, **options)


def sizes(entry: AuditedEntry, what: str) -> dict[int, Any]:
    """One attribute of each candidate, by its BLOCK_M."""
    return {int(one.config.split('"BLOCK_M": ')[1].split("}")[0]): getattr(one, what) for one in entry.candidates}


def classes(entry: AuditedEntry) -> dict[int, int]:
    """The class of each candidate that repeats itself, by its BLOCK_M."""
    return {int(text.split('"BLOCK_M": ')[1].split("}")[0]): number for text, number in entry.classes.items()}
