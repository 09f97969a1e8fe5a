"""Triton's listener, from 3.9 on: ours together with the user's."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from typing import Any

import pytest

from tests.runtime.fakes import HAS_LISTENER, Timer, autotuner, launch, triton
from tuning_registry.runtime import AutotunePolicy, choice_log, coverage_report, install

pytestmark = pytest.mark.skipif(not HAS_LISTENER, reason="Triton's listener came with 3.9")


def test_a_tuning_that_fails_leaves_the_users_listener_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    knob, heard = triton.knobs.autotuning, []

    def fail(call: Any, quantiles: Any) -> None:
        raise RuntimeError("out of memory")

    def theirs(**event: Any) -> None:
        heard.append(event["best_config"])

    monkeypatch.setattr(knob, "listener", None)
    install(AutotunePolicy(mode="auto"))
    with pytest.raises(RuntimeError, match="out of memory"):
        launch(autotuner(timer=fail))
    assert knob.listener is None
    knob.listener = theirs
    with pytest.raises(RuntimeError, match="out of memory"):
        launch(autotuner(timer=fail))
    assert knob.listener is theirs
    with knob.scope():
        knob.listener = None
        launch(autotuner())
    launch(tuned := autotuner(timer=Timer([2.0, 1.0, 3.0])))
    assert heard == [tuned.configs[1]]
    del knob.listener
    assert knob.listener is None
    knob.listener = None
    assert len(choice_log()) == 1
    assert coverage_report().faults == {}


def test_a_kernel_left_with_one_candidate_is_not_told_to_a_listener_of_ours() -> None:
    """With any listener, Triton 3.9 then raises where the kernel has never been timed."""
    prune = {"early_config_prune": lambda configs, named, **kwargs: configs[:1]}
    install(AutotunePolicy(mode="auto"))
    assert launch(autotuner(prune_configs_by=prune)) == "launched"
    assert [choice.source for choice in choice_log()] == ["single"]


def test_a_tool_that_takes_the_knobs_place_costs_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = type(triton.knobs.autotuning)
    install(AutotunePolicy(mode="auto"))
    with monkeypatch.context() as patched:
        patched.setattr(knobs, "listener", None)
        patched.setitem(vars(triton.knobs.autotuning), "listener", None)
        launch(autotuner(timer=Timer([2.0, 1.0, 3.0])))
    assert [choice.source for choice in choice_log()] == ["timed"]
