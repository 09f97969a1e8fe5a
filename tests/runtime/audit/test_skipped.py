"""Calls that are not audited, with the reason; the job's launch happens in any case."""


# mypy: disable-error-code="import-untyped, import-not-found"

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.runtime.audit.helpers import kernel, recorded  # noqa: E402  # what needs torch waits for it
from tests.runtime.fakes import ARCH, autotuner, launch, launched, only_recording, pin, stored  # noqa: E402  # likewise
from tuning_registry.formats.audits import read_audits  # noqa: E402  # likewise
from tuning_registry.runtime import coverage_report, install, uninstall  # noqa: E402  # likewise
from tuning_registry.runtime.audit import candidates  # noqa: E402  # likewise


class TensorDescriptor:
    def __init__(self, base: Any) -> None:
        self.base = base


Subclass = type("Subclass", (torch.Tensor,), {})


def freed() -> Any:
    tensor = torch.zeros(40)
    tensor.untyped_storage().resize_(0)
    return tensor


def misaligned() -> Any:
    import numpy as np

    memory = np.zeros(400, dtype=np.uint8)
    shift = (-memory.ctypes.data) % 16 + 4
    return torch.from_numpy(memory[shift : shift + 160].view(np.float32))


def overlapping() -> Any:
    import numpy as np

    memory = np.zeros(400, dtype=np.float32)
    start = (-memory.ctypes.data) % 16 // 4
    return torch.from_numpy(memory[start : start + 80]), torch.from_numpy(memory[start + 40 : start + 120])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: (torch.zeros(40), TensorDescriptor(torch.zeros(4))), "y is a tensor descriptor"),
        (lambda: (torch.zeros(40), torch.zeros(40).as_subclass(Subclass)), "y is a Subclass, a subclass of Tensor"),
        (lambda: (torch.zeros(40), types.SimpleNamespace(data_ptr=lambda: 0)), "y is a SimpleNamespace that points to memory"),
        (lambda: (torch.zeros(40), (1, torch.zeros(4))), "y is a tuple of tensors"),
        (lambda: (torch.zeros(40), iter([1, 2])), "y can be read only once"),
        (lambda: (torch.zeros(40), 0x7F12_3456_7890), "y may be a memory address"),
        (lambda: (torch.zeros(40), torch.tensor([3, 0x7F12_3456_7890])), "a tensor may hold memory addresses"),
        (lambda: (torch.zeros(40).to_sparse(), torch.zeros(40)), "x is not an ordinary dense tensor"),
        (lambda: (torch.zeros(40), torch.zeros(40, device="meta")), "y is not an ordinary dense tensor"),
        (lambda: (freed(), torch.zeros(40)), "the storage of x was freed"),
        (lambda: (torch.zeros(0), torch.zeros(0)), "its tensors are empty"),
        (lambda: (1, 2), "no argument is a tensor"),
        (lambda: (torch.zeros(40), misaligned()), "a tensor's memory is not aligned to 16 bytes"),
        (overlapping, "two of its tensors' storages overlap in memory"),
    ],
)  # fmt: skip
def test_what_cannot_be_copied_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Any, reason: str
) -> None:
    quiet = kernel(None)
    x, y = make()
    entry = recorded(tmp_path, quiet, x, y, 16)
    assert entry.skipped == reason
    assert f"pkg.ops.kernel is not audited: {reason}" in caplog.text
    assert len(launched(quiet)) == 4  # as many as Triton's


def test_large_numbers_that_are_no_addresses_are_audited(tmp_path: Path) -> None:
    y = torch.tensor([(1 << 62) + 16, -5, 1 << 39])
    assert recorded(tmp_path, kernel(None), torch.zeros(40), y, (1 << 60) + 1).skipped == ""


def test_memory_of_the_host_that_is_pinned_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of it would be ordinary memory, which Triton refuses, so that every candidate would count as failed."""
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: True)
    assert recorded(tmp_path, kernel(None), torch.zeros(40), 2, 16).skipped == "x is in pinned host memory"


def test_a_tensor_that_repeats_its_elements_takes_no_more_memory_than_its_storage(tmp_path: Path) -> None:
    repeated = torch.ones(1, dtype=torch.int64).expand(1 << 60)  # nothing could hold as many
    assert recorded(tmp_path, kernel(None), torch.zeros(40), repeated, 16).skipped == ""
    holding = torch.tensor([0x7F12_3456_7890]).expand(1 << 60)
    entry = recorded(tmp_path, kernel(None), torch.zeros(40), holding, 16, name="address")
    assert entry.skipped == "a tensor may hold memory addresses"


def test_a_call_over_the_limit_is_skipped_before_anything_is_copied(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(candidates, "Copies", None)
    args = torch.zeros(1 << 20), torch.zeros(40), 16
    entry = recorded(tmp_path, kernel(None), *args, audit_memory=8 << 20)
    assert entry.skipped.startswith("copies would take ")
    monkeypatch.undo()
    assert recorded(tmp_path, kernel(None), *args, audit_memory=10 << 20, name="more").skipped == ""


def test_no_memory_left_skips_the_call(tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: Any) -> None:
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(candidates, "Copies", full)
    entry = recorded(tmp_path, kernel(None), torch.zeros(40), torch.zeros(40), 16)
    assert entry.skipped == "there is not enough device memory for copies"


def test_no_memory_left_for_a_candidate_accuses_nobody(tmp_path: Path) -> None:
    calls: list[int] = []

    def full(*_: Any, **__: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise torch.cuda.OutOfMemoryError

    entry = recorded(tmp_path, kernel(full), torch.zeros(40), torch.zeros(40), 16)
    assert entry.skipped == "there is not enough device memory for copies"
    assert len(calls) == 2 + 4  # Triton goes on as always


@pytest.mark.parametrize("how", ["extern_libs", "source"])
def test_a_kernel_that_may_talk_to_other_ranks_is_skipped(tmp_path: Path, how: str) -> None:
    made = kernel(None)
    kwargs = {"extern_libs": {"libnvshmem_device": "/lib"}} if how == "extern_libs" else {}
    if how == "source":
        made.fn.__dict__["_src" if isinstance(getattr(type(made.fn), "src", None), property) else "src"] = (
            "def kernel(x, y, M):\n    nvshmem.putmem(x, y)\n"
        )
    entry = recorded(tmp_path, made, torch.zeros(40), torch.zeros(40), 16, kwargs=kwargs)
    assert entry.skipped == "the kernel may communicate with other ranks"


def test_memory_that_ranks_share_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = types.SimpleNamespace(is_symm_mem_tensor=lambda tensor: tensor.numel() == 41)
    monkeypatch.setitem(sys.modules, "torch.distributed._symmetric_memory", fake)
    assert (
        recorded(tmp_path, kernel(None), torch.zeros(40), torch.zeros(41), 16).skipped
        == "y is in memory that ranks share"
    )


def test_a_fault_of_the_audit_is_counted_and_named_and_the_launch_goes_on(tmp_path: Path, monkeypatch: Any) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(candidates, "audit", broken)
    install(record_path=tmp_path / "rec", arch=ARCH, run="job", audit=True)
    made = kernel(None)
    made[(1,)](torch.zeros(40), torch.zeros(40), 16)
    assert coverage_report().faults == {"auditing a kernel": 1}
    uninstall()
    recording = only_recording(tmp_path)
    (entry,) = read_audits(recording.header.extra)[ARCH]["pkg.ops.kernel"].values()
    assert entry.skipped.startswith("its candidates are known only when")
    assert len(recording.votes[ARCH]["pkg.ops.kernel"]) == 1


def test_without_the_policy_field_nothing_is_audited_and_nothing_is_added(tmp_path: Path) -> None:
    install(record_path=tmp_path / "rec", arch=ARCH, run="job")
    made = kernel(None)
    made[(1,)](torch.zeros(40), torch.zeros(40), 16)
    uninstall()
    assert only_recording(tmp_path).header.extra == {}
    assert len(launched(made)) == 4


def test_only_the_packages_in_scope_are_audited(tmp_path: Path) -> None:
    install(record_path=tmp_path / "rec", arch=ARCH, run="job", audit=True, modules=("pkg",))
    other = autotuner(module="other.ops")
    launch(other, torch.zeros(40), torch.zeros(40), 16)
    launch(kernel(None), torch.zeros(40), torch.zeros(40), 16)
    uninstall()
    assert len(launched(other)) == 4
    assert list(only_recording(tmp_path).header.extra["audit"]["entries"][ARCH]) == ["pkg.ops.kernel"]


def test_an_audit_in_another_mode_than_record_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = kernel(None)
    pin(tmp_path, stored(made.configs[0]), audit=True)
    assert "audit has no effect in mode pinned" in caplog.text
    launch(made, torch.zeros(40), torch.zeros(40), 16)
    assert launched(made) == [128]
