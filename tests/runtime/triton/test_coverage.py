"""Gaps in coverage: autotuners that bypass us, and choices made before install."""


# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from pathlib import Path

import pytest

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    KEEPS_DEVICE_CACHES,
    NAME,
    Bypassing,
    Counting,
    autotuner,
    launch,
    launched,
    nothing,
    pin,
    stored,
    three,
    triton,
)
from tuning_registry.errors import LaunchError
from tuning_registry.runtime import AutotunePolicy, coverage_report, install, uninstall
from tuning_registry.runtime.triton.coverage import was_launched


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("mode", ["auto", "pinned"])
def test_a_bypassing_autotuner_is_a_gap_once_it_was_launched_and_not_before(mode: str) -> None:
    kernel, idle, calling = autotuner(cls=Bypassing), autotuner(name="idle", cls=Bypassing), autotuner(cls=Counting)
    install(AutotunePolicy(mode=mode, arch=ARCH))
    assert coverage_report().not_covered == ()
    for called in (kernel, calling):
        launch(called)
    ((name, why),) = coverage_report().not_covered
    assert (name, "it was launched, but its class overrides run" in why) == (NAME, True)
    uninstall()
    launch(idle)
    install(AutotunePolicy(mode=mode, arch=ARCH))
    assert "pkg.ops.idle" in dict(coverage_report().not_covered)


@pytest.mark.usefixtures("alone")
def test_where_a_kernel_keeps_no_trace_of_launches_a_gap_is_claimed_rather_than_denied() -> None:
    kernel = autotuner(cls=Bypassing, plain=True)
    install(AutotunePolicy(mode="auto", arch=ARCH))
    assert [name for name, _ in coverage_report().not_covered] == [NAME]
    assert was_launched(kernel)


def test_a_launch_is_read_from_what_this_release_of_triton_keeps() -> None:
    kernel = autotuner(cls=Bypassing)
    kernel.fn = triton.jit(nothing)
    assert not was_launched(kernel)
    if KEEPS_DEVICE_CACHES:
        kernel.fn.device_caches[0] = ({"key": "a kernel"}, {}, None, None, None)
    else:
        kernel.fn.cache[0]["key"] = "a kernel"
    assert was_launched(kernel)


@pytest.mark.usefixtures("alone")
def test_what_was_tuned_before_install_is_reported_and_pinned_from_then_on(tmp_path: Path) -> None:
    kernel = autotuner()
    launch(kernel)
    install(AutotunePolicy(mode="auto"))
    launch(kernel)
    assert [name for name, why in coverage_report().not_covered if "before install" in why] == [NAME]
    pin(tmp_path, stored(three()[2]))
    launch(kernel)
    assert launched(kernel)[-1] == 32
    assert coverage_report().not_covered == ()


def test_kernels_that_on_miss_refuses_are_enumerated(tmp_path: Path) -> None:
    pin(tmp_path, stored(three()[0]), key="*", on_miss="error")
    with pytest.raises(LaunchError):
        launch(autotuner(name="absent"))
    assert coverage_report().reached == {"pkg.ops.absent": "refused"}
