"""What candidates of an audited call find in their copies, and what the job finds afterwards."""

# ruff: noqa: N803 - arguments are named as Triton passes them

# mypy: disable-error-code="import-untyped, import-not-found"

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("triton")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402  # likewise

from tests.runtime.audit.helpers import classes, kernel, recorded, sizes  # noqa: E402  # what needs torch waits for it
from tests.runtime.fakes import Timer, only_recording  # noqa: E402  # likewise
from tests.runtime.recording.helpers import ROOT  # noqa: E402  # likewise
from tuning_registry.formats.audits import read_audits  # noqa: E402  # likewise


class Seen:
    """A kernel that does nothing but keep what it was passed."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any]] = []

    def __call__(self, x: Any, y: Any, *_: Any, **__: Any) -> None:
        self.calls.append((x, y))


def quiet(behave: Any, **options: Any) -> Any:
    """A kernel that Triton's timer does not run: only the audit and the launch do."""
    return kernel(behave, timer=Timer([1.0, 2.0, 3.0], runs=False), **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda base: (base[:3], base[3:]),  # two parts of one storage
        lambda base: (base.t(), base[1]),  # that overlap
        lambda base: (base, base),  # one tensor twice
        lambda base: (base[::2, ::3], base.view(torch.int32)[1:2]),  # with gaps, and of another dtype
        lambda base: (base[0].expand(5, 8), base[:0]),  # that repeats itself, and an empty one
        lambda base: (torch.nn.Parameter(base), torch.tensor(3.0)),
    ],
)
def test_copies_keep_storage_strides_aliasing_and_overlap(tmp_path: Path, make: Any) -> None:
    base = torch.randn(6, 8)
    x, y = make(base)
    seen = Seen()
    recorded(tmp_path, quiet(seen), x, y, 16)
    mine, job = seen.calls[0], seen.calls[-1]
    assert job == (x, y) or (job[0] is x and job[1] is y)
    for copied, own in zip(mine, (x, y), strict=True):
        assert torch.equal(copied, own)
        assert (copied.dtype, copied.size(), copied.stride()) == (own.dtype, own.size(), own.stride())
        assert copied.data_ptr() % 16 == own.data_ptr() % 16
        assert copied.untyped_storage().data_ptr() != own.untyped_storage().data_ptr() or not own.numel()
    shared = x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert shared is (mine[0].untyped_storage().data_ptr() == mine[1].untyped_storage().data_ptr())
    assert not shared or not y.numel() or mine[0].data_ptr() - mine[1].data_ptr() == x.data_ptr() - y.data_ptr()


def test_a_candidate_that_reads_through_the_other_argument_is_audited_rightly(tmp_path: Path) -> None:
    base = torch.arange(12.0)
    before = base.clone()

    def shifting(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
        for start in range(0, 10, BLOCK_M // 32):  # the result depends on the tile, since the arguments overlap
            y[start : start + BLOCK_M // 32] += x[start : start + BLOCK_M // 32].clone()

    entry = recorded(tmp_path, quiet(shifting), base[:10], base[2:], 16)
    assert len(set(classes(entry).values())) > 1
    shifting(before[:10], before[2:], 16, BLOCK_M=128)
    assert torch.equal(base, before)


def test_a_candidate_that_writes_past_the_end_of_a_tensor_harms_nothing(tmp_path: Path) -> None:
    def careless(x: Any, y: Any, M: Any, **_: Any) -> None:
        torch.as_strided(y, (40 + 64,), (1,), y.storage_offset()).fill_(1.0)

    x, y = torch.zeros(40), torch.zeros(2, 200)
    entry = recorded(tmp_path, quiet(careless), x, y[1, :40], 16)
    assert classes(entry) == {128: 0, 64: 0, 32: 0}
    assert not y[0].any()


def test_the_job_ends_with_the_values_and_generators_of_a_run_without_audit(tmp_path: Path) -> None:
    def noisy(arguments: dict[str, Any], reset_only: bool = False) -> None:
        if reset_only:  # a hook that draws
            arguments["y"].copy_(torch.rand(40) + random.random() + numpy.random.rand())

    def run(audit: Any) -> Any:
        torch.manual_seed(3)
        random.seed(3)
        numpy.random.seed(3)
        x, y = torch.randn(40, requires_grad=True), torch.randn(40)
        adding = quiet(lambda x, y, M, **_: y.add_(x.detach()), pre_hook=noisy)
        recorded(tmp_path, adding, x, y, 16, audit=audit, name=f"a{audit}") if audit else plain(tmp_path, adding, x, y)
        return y, torch.rand(3), random.random(), numpy.random.rand(), x._version

    stock, audited, seeded = run(False), run(True), run("seeded")
    for other in (audited, seeded):
        assert torch.equal(stock[0], other[0])
        assert torch.equal(stock[1], other[1])
        assert stock[2:] == other[2:]


def plain(folder: Path, made: Any, *args: Any) -> None:
    from tuning_registry.runtime import install, uninstall

    install(record_path=folder / "plain" / "rec", arch="sm90", run="job")
    made[(1,)](*args, 16)
    uninstall()


def test_modes_of_the_job_see_nothing_of_an_audit(tmp_path: Path) -> None:
    class Counting(TorchDispatchMode):  # type: ignore[misc]
        operations: list[str] = []  # noqa: RUF012 - of one test

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.operations.append(str(func))
            return func(*args, **(kwargs or {}))

    x, y = torch.randn(40), torch.zeros(40)
    with Counting() as mode:
        recorded(tmp_path, quiet(Seen()), x, y, 16)
    assert mode.operations == []


def test_no_copy_stays_alive_also_after_a_candidate_failed(tmp_path: Path) -> None:
    held: list[Any] = []

    def failing(x: Any, y: Any, M: Any, **_: Any) -> None:
        held.append(weakref.ref(x))
        if len(held) < 4:
            raise ValueError("no")

    recorded(tmp_path, quiet(failing), torch.randn(40), torch.zeros(40), 16)
    gc.collect()
    assert len(held) > 3
    assert [one() for one in held[:-1]] == [None] * (len(held) - 1)


def test_seeded_values_replace_floating_point_tensors_and_no_others(tmp_path: Path) -> None:
    seen = Seen()
    x, y = torch.full((3, 50), 7.0, dtype=torch.bfloat16), torch.arange(20)
    recorded(tmp_path, quiet(seen), x, y, 16, audit="seeded")
    mine = seen.calls[0]
    assert mine[0].abs().max() <= 1
    assert len(mine[0].float().unique()) > 50
    assert abs(float(mine[0].float().mean())) < 0.2
    assert torch.equal(mine[1], y)
    assert set(x.float().flatten().tolist()) == {7.0}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.float8_e5m2, torch.complex64])
def test_two_jobs_with_other_values_audit_seeded_ones_alike(tmp_path: Path, dtype: Any) -> None:
    def work(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
        y.copy_((x.to(torch.complex128) * BLOCK_M).real)

    def audited(name: str, audit: Any) -> Any:
        x = torch.randn(40).to(dtype)
        return recorded(tmp_path, quiet(work), x, torch.empty(40, dtype=torch.float64), 16, name=name, audit=audit)

    one, other = audited("a", "seeded"), audited("b", "seeded")
    assert one == other
    assert one.is_seeded
    assert audited("c", True).inputs != audited("d", True).inputs


def test_inputs_state_everything_that_is_passed(tmp_path: Path) -> None:
    x, y = torch.arange(40.0), torch.zeros(40)
    variants = [(x, y, 16), (x, y, 32), (x.flip(0), y, 16), (x.view(2, 20), y, 16), (x.bfloat16(), y, 16)]
    found = [recorded(tmp_path, quiet(Seen()), *args, name=str(n)).inputs for n, args in enumerate(variants)]
    assert len(set(found)) == len(variants)
    assert recorded(tmp_path, quiet(Seen()), x.clone(), y.clone(), 16, name="again").inputs == found[0]
    assert sizes(recorded(tmp_path, quiet(Seen()), x, y, 16, name="last"), "failed") == dict.fromkeys(
        (128, 64, 32), False
    )


CHILD = """
    import sys
    import torch
    from tests.runtime.audit.helpers import kernel
    from tuning_registry.runtime import install, uninstall

    garbage = float(sys.argv[2])
    torch.manual_seed(int(garbage))
    x, y, z = torch.randn(7, 33).bfloat16(), torch.full((1001,), garbage), torch.full((3, 5), garbage, dtype=torch.float16)
    install(record_path=sys.argv[1], arch="sm90", run=f"job-{garbage}", audit="seeded")

    def work(x, y, M, z, *, BLOCK_M, **_):
        y[:33] = x.float().sum(1) * BLOCK_M
        z[0] = x[0, 0]

    kernel(work, args=("x", "y", "M", "z"))[(1,)](x.t(), y[1:], 16, z[:2])
    uninstall()
"""


def test_processes_with_other_garbage_in_their_outputs_compare_if_seeded(tmp_path: Path) -> None:
    found = []
    for garbage in ("1.0", "65504.0"):
        folder = tmp_path / garbage
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": garbage[:1]}
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(CHILD), str(folder / "rec"), garbage],
            cwd=ROOT, env=environment, check=True, timeout=120,
        )  # fmt: skip
        audits = read_audits(only_recording(folder).header.extra)
        found += [entry for keys in audits["sm90"].values() for entry in keys.values()]
    assert found[0].inputs == found[1].inputs
    assert found[0] == found[1]
    assert found[0].candidates[0].digest != found[0].candidates[1].digest
