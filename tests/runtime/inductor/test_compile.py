"""Kernels under torch.compile: recorded, pinned, and compared, by the real Dynamo and Inductor."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import json
import logging
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.runtime.fakes import only_recording, write_table  # noqa: E402  # what needs torch waits for it
from tests.runtime.inductor.conftest import Machine  # noqa: E402
from tuning_registry.errors import LaunchError  # noqa: E402
from tuning_registry.model.canonical import config_text, live_config_text  # noqa: E402
from tuning_registry.model.records import ECHO  # noqa: E402
from tuning_registry.runtime import choice_log, coverage_report, install, uninstall  # noqa: E402
from tuning_registry.runtime.inductor.launches import CompiledLaunches  # noqa: E402
from tuning_registry.runtime.session import Session  # noqa: E402
from tuning_registry.runtime.triton.keys import Call, source_hash  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself

ARCH = "sm90"
ADD = "tests.runtime.inductor.kernels.add"
DTYPES = "|torch.float32|torch.float32|torch.float32"
KEY = f"n=1000{DTYPES}"
ALL = ["add BLOCK=64 w2", "add BLOCK=64 w4", "add BLOCK=128 w2", "add BLOCK=128 w4"]


@pytest.fixture
def kernels(machine: Machine) -> Any:
    from tests.runtime.inductor import kernels

    return kernels


def config(block: int, warps: int) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(config_text({"kwargs": {"BLOCK": block}, "num_warps": warps, "num_stages": 3}))
    return stored


def run(function: Any, size: int = 1000, **options: Any) -> Any:
    """Compile a function and call it."""
    return torch.compile(function, **options)(torch.ones(size))


def record(tmp_path: Path, **fields: Any) -> None:
    install(mode="record", record_path=tmp_path / "rec" / "r", run="job", arch=ARCH, **fields)


def pin(tmp_path: Path, entries: dict[str, Any], kernel: str = ADD, extra: Any = None, **fields: Any) -> None:
    path = write_table(tmp_path / "tables", {kernel: entries} if entries else {}, extra=extra or {})
    install(mode="pinned", table_path=path, arch=ARCH, **fields)


def test_a_winner_is_a_vote_under_the_name_and_key_of_an_eager_launch(
    machine: Machine, kernels: Any, tmp_path: Path
) -> None:
    record(tmp_path)
    machine.times = {name: 3.0 - i * 0.5 for i, name in enumerate(ALL)}
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.timed) == ALL
    assert machine.of(machine.launched) == [ALL[3]]
    assert coverage_report().reached[ADD] == "timed"
    assert not [gap for gap in coverage_report().not_covered if gap[0] == ADD]
    uninstall()
    recording = only_recording(tmp_path / "rec")
    x = torch.ones(1000)
    assert Call(kernels.add, (x, x, x, 1000), {}).key == KEY
    assert recording.votes == {ARCH: {ADD: {KEY: live_config_text(kernels.add.configs[3])}}}
    timed = {timing.config: timing.median_ms for timing in recording.timings[ARCH][ADD][KEY]}
    assert timed == {live_config_text(c): machine.times[name] for c, name in zip(kernels.add.configs, ALL, strict=True)}
    assert recording.header.sources == {ADD: source_hash(kernels.add)}


def test_timings_of_a_kernel_with_a_fused_epilogue_do_not_vote(
    machine: Machine, kernels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = CompiledLaunches.plan
    monkeypatch.setattr(
        CompiledLaunches, "plan", lambda self, *args, **_: plan(self, *args, is_fused=True)  # as if Inductor had
    )  # fmt: skip
    record(tmp_path)
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.timed) == ALL
    assert [kernel for kernel, why in coverage_report().not_covered if "fused" in why] == [ADD]
    uninstall()
    assert not list(tmp_path.rglob("r.job.*.json"))


def test_what_inductor_has_cached_is_an_echo(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    record(tmp_path / "first")
    machine.times = {ALL[1]: 0.5}
    run(lambda x: kernels.call(kernels.add, x))
    uninstall()
    machine.new_process()
    record(tmp_path / "second")
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.timed) == []
    assert [(c.key, c.source) for c in choice_log() if c.kernel == ADD] == [(KEY, "echo")]
    uninstall()
    recording = only_recording(tmp_path / "second" / "rec")
    assert recording.votes == {}
    assert recording.observations[ARCH][ADD][KEY].reason == ECHO
    assert json.loads(recording.observations[ARCH][ADD][KEY].config or "") == config(64, 4)


def test_a_candidate_that_does_not_compile_is_recorded_as_failed(
    machine: Machine, kernels: Any, tmp_path: Path
) -> None:
    record(tmp_path)
    machine.broken = {ALL[0]}
    run(lambda x: kernels.call(kernels.add, x))
    uninstall()
    timings = list(only_recording(tmp_path / "rec").timings[ARCH][ADD][KEY])
    assert [json.loads(t.config) for t in timings if t.median_ms is None] == [config(64, 2)]
    assert len(timings) == 4


def test_a_pinned_kernel_compiles_one_candidate_and_times_none(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    pin(tmp_path, {KEY: config(128, 2)})
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.compiled) == [ALL[2]]
    assert machine.of(machine.timed) == []
    assert machine.of(machine.launched) == [ALL[2]]
    report = coverage_report()
    assert report.reached[ADD] == "pinned"
    assert (report.misses, report.faults) == ((), {})
    assert [(c.key, json.loads(c.config), c.source) for c in choice_log() if c.kernel == ADD] == [
        (KEY, config(128, 2), "table")
    ]


def test_the_choice_is_noted_over_a_warm_cache(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    for _ in range(2):
        pin(tmp_path, {KEY: config(128, 2)})
        run(lambda x: kernels.call(kernels.add, x))
        assert machine.of(machine.launched) == [ALL[2]]
        assert [c.source for c in choice_log() if c.kernel == ADD] == ["table"]
        uninstall()
        machine.new_process()


def test_a_changed_table_and_a_removed_one_count_over_a_warm_cache(
    machine: Machine, kernels: Any, tmp_path: Path
) -> None:
    def function(x: Any) -> Any:
        return kernels.call(kernels.add, x)

    pin(tmp_path, {KEY: config(128, 2)})
    run(function)
    machine.new_process()
    pin(tmp_path, {KEY: config(64, 4)})
    run(function)
    assert machine.of(machine.launched) == [ALL[1]]
    machine.new_process()
    pin(tmp_path, {})
    run(function)
    assert machine.of(machine.launched) == [ALL[0]]
    assert [(miss.kernel, miss.source) for miss in coverage_report().misses] == [(ADD, "min_cost")]
    assert machine.of(machine.timed) == []
    machine.new_process()
    uninstall()
    machine.times = {ALL[3]: 0.5}
    run(function)
    assert machine.of(machine.timed) == ALL
    assert machine.of(machine.launched) == [ALL[3]]


def test_an_unseen_key_gets_the_nearest_keys_config_and_one_more_is_compiled(
    machine: Machine, kernels: Any, tmp_path: Path
) -> None:
    pin(tmp_path, {f"n=900{DTYPES}": config(128, 4)})
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.compiled) == [ALL[3], ALL[0]]
    assert machine.of(machine.launched) == [ALL[3]]
    (miss,) = coverage_report().misses
    assert (miss.key, miss.reason, miss.source, miss.nearest) == (KEY, "no key", "nearest", f"n=900{DTYPES}")


def test_a_fallback_that_does_not_compile_gives_way(
    machine: Machine, kernels: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pin(tmp_path, {f"n=900{DTYPES}": config(128, 4)})
    machine.broken = {ALL[3]}
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.launched) == [ALL[0]]
    assert [c.source for c in choice_log() if c.kernel == ADD] == ["min_cost"]
    assert [r.message for r in caplog.records if "did not compile under torch.compile" in r.message]


def test_an_entry_that_does_not_compile_raises_as_in_an_eager_launch(
    machine: Machine, kernels: Any, tmp_path: Path
) -> None:
    pin(tmp_path, {KEY: config(128, 4)})
    machine.broken = {ALL[3]}
    with pytest.raises(Exception, match="shared memory"):
        run(lambda x: kernels.call(kernels.add, x))


def test_bans_hold(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    ban = {"kernel": ADD, "key": "*", "action": "ban", "config": config(64, 2), "reason": "it is wrong", "author": "me"}
    extra = {"overrides": [ban]}
    pin(tmp_path, {KEY: config(128, 2)}, extra=extra)
    run(lambda x: kernels.call(kernels.add, x), 77)
    assert machine.of(machine.launched) == [ALL[2]]
    machine.new_process()
    pin(tmp_path, {KEY: config(128, 2)}, extra=extra, on_miss="min_cost")
    run(lambda x: kernels.call(kernels.add, x), 77)
    assert machine.of(machine.launched) == [ALL[1]]
    machine.new_process()
    pin(tmp_path, {KEY: config(128, 2)}, extra=extra, on_miss="tune")
    run(lambda x: kernels.call(kernels.add, x), 77)
    assert machine.of(machine.timed) == ALL[1:]


def test_bans_hold_for_dynamic_sizes(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    bans = [
        {"kernel": ADD, "key": key, "action": "ban", "config": config(*banned), "reason": "it is wrong"}
        for key, banned in (("*", (64, 2)), (f"n=2000{DTYPES}", (64, 4)))
    ]
    pin(tmp_path, {KEY: config(128, 2)}, extra={"overrides": bans})
    machine.broken = {ALL[2]}  # what is chosen does not compile, and the first of the others is banned
    compiled = torch.compile(lambda x: kernels.call(kernels.add, x), dynamic=True)
    for size in (1000, 2000):
        compiled(torch.ones(size))
    assert not {ALL[0], ALL[2]} & set(machine.of(machine.launched))
    assert machine.of(machine.launched)[1] == ALL[3]
    assert coverage_report().faults == {}


@pytest.mark.parametrize("fields", [{"on_miss": "tune"}, {"config_invariant": ["add"]}])
def test_inductor_times_nothing_that_is_banned_for_some_size(
    machine: Machine, kernels: Any, tmp_path: Path, fields: Any
) -> None:
    ban = {"kernel": ADD, "key": f"n=2000{DTYPES}", "action": "ban", "config": config(64, 2), "reason": "it is wrong"}
    pin(tmp_path, {f"n=9{DTYPES}": config(128, 2)}, extra={"overrides": [ban]}, **fields)
    compiled = torch.compile(lambda x: kernels.call(kernels.add, x), dynamic=True)
    for size in (1000, 2000):
        compiled(torch.ones(size))
    assert machine.of(machine.timed) == ALL[1:]
    assert ALL[0] not in machine.of(machine.launched)


def test_on_miss_error_refuses(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    pin(tmp_path, {f"n=900{DTYPES}": config(128, 4)}, on_miss="error")
    with pytest.raises(Exception, match="no config to pin") as caught:
        run(lambda x: kernels.call(kernels.add, x))
    chain = [
        caught.value,
        caught.value.__cause__,
        caught.value.__context__,
        getattr(caught.value, "inner_exception", None),
    ]
    assert any(isinstance(error, LaunchError) for error in chain)
    assert coverage_report().reached == {ADD: "refused"}
    assert machine.launched == []


def test_on_miss_tune_times_and_records(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    pin(tmp_path, {f"n=900{DTYPES}": config(128, 4)}, on_miss="tune", record_path=tmp_path / "rec" / "r", run="job")
    machine.times = {ALL[1]: 0.5}
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.timed) == ALL
    report = coverage_report()
    assert report.reached[ADD] == "timed"
    assert [(miss.key, miss.source) for miss in report.misses] == [(KEY, "timed")]
    uninstall()
    votes = only_recording(tmp_path / "rec").votes
    assert {key: json.loads(text) for key, text in votes[ARCH][ADD].items()} == {KEY: config(64, 4)}


def test_kernels_out_of_scope_are_left_alone(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    pin(tmp_path, {KEY: config(128, 2)}, modules=("fla",))
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.timed) == ALL
    assert coverage_report().reached == {ADD: "out of scope"}


def test_off_leaves_inductor_alone_and_says_what_was_not_pinned(
    machine: Machine, kernels: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    original = CachingAutotuner.precompile
    pin(tmp_path, {KEY: config(128, 2)}, torch_compile=False)
    assert CachingAutotuner.precompile is original
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.timed) == ALL
    assert coverage_report().not_covered == ((ADD, "captured by torch.compile"),)
    caplog.clear()
    uninstall()
    assert [r.message for r in caplog.records if "is not pinned" in r.message and r.levelno == logging.WARNING]


def test_uninstall_gives_inductor_its_functions_back(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    from tuning_registry.runtime.inductor.seams import SEAMS

    owners = {seam: getattr(__import__(f"torch._inductor.{seam.module}", fromlist=["x"]), seam.owner) for seam in SEAMS}
    before = {seam: vars(owner)[seam.name] for seam, owner in owners.items()}
    record(tmp_path)
    assert all(vars(owner)[seam.name] is not before[seam] for seam, owner in owners.items())
    uninstall()
    assert all(vars(owner)[seam.name] is before[seam] for seam, owner in owners.items())


def test_values_of_heuristics_are_no_part_of_a_config(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    name, key = ADD.replace("add", "even"), f"n=1000|MODE=fast{DTYPES}"
    record(tmp_path)
    machine.times = {"even BLOCK=128 w4": 0.5}
    run(lambda x: kernels.call(kernels.even, x, MODE="fast"))
    uninstall()
    votes = only_recording(tmp_path / "rec").votes
    assert {key: json.loads(text) for key, text in votes[ARCH][name].items()} == {key: config(128, 4)}
    machine.new_process()
    pin(tmp_path, {key: config(64, 4)}, kernel=name)
    run(lambda x: kernels.call(kernels.even, x, MODE="fast"))
    assert machine.of(machine.compiled, "even") == ["even BLOCK=64 w4"]


def test_values_of_heuristics_around_an_autotuner_are_part_of_the_key(
    machine: Machine, kernels: Any, tmp_path: Path
) -> None:
    name, key = ADD.replace("add", "rounded"), f"n=1000|ROUND=True{DTYPES}"
    record(tmp_path)
    run(lambda x: kernels.call(kernels.rounded, x))
    uninstall()
    assert list(only_recording(tmp_path / "rec").votes[ARCH][name]) == [key]


def test_what_pruning_drops_is_not_launched(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    name = ADD.replace("add", "pruned")
    pin(tmp_path, {KEY: config(64, 4), f"n=1200{DTYPES}": config(256, 2)}, kernel=name)
    run(lambda x: kernels.call(kernels.pruned, x))
    assert machine.of(machine.launched, "pruned") == ["pruned BLOCK=256 w2"]
    assert [(miss.reason, miss.source) for miss in coverage_report().misses] == [("pruned away", "nearest")]


def test_a_triton_op_is_seen_through(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    for entry, expected in ((config(128, 2), ALL[2]), (config(64, 4), ALL[1])):
        pin(tmp_path, {KEY: entry})
        run(kernels.op_add)
        assert machine.of(machine.compiled) == [expected]
        assert machine.of(machine.launched) == [expected]
        machine.new_process()


def test_each_value_of_a_dynamic_size_is_pinned(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    pin(tmp_path, {KEY: config(128, 2), f"n=2000{DTYPES}": config(64, 4)})
    compiled = torch.compile(lambda x: kernels.call(kernels.add, x), dynamic=True)
    for size in (1000, 2000, 1900, 1000):
        compiled(torch.ones(size))
    assert machine.of(machine.compiled) == ALL[:3]  # what the table names, and the two cheapest
    assert machine.of(machine.timed) == []
    assert machine.of(machine.launched) == [ALL[2], ALL[1], ALL[1], ALL[2]]
    assert [(c.key.partition("|")[0], c.source) for c in choice_log() if c.kernel == ADD] == [
        ("n=1000", "table"), ("n=1900", "nearest"), ("n=2000", "table"),
    ]  # fmt: skip
    assert [(miss.key, miss.source) for miss in coverage_report().misses] == [(f"n=1900{DTYPES}", "nearest")]
    assert not [gap for gap in coverage_report().not_covered if gap[0] == ADD]


def test_dynamic_sizes_get_what_the_entry_of_every_key_names(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    name = ADD.replace("add", "pruned")
    pin(tmp_path, {"*": config(256, 4)}, kernel=name)
    run(lambda x: kernels.call(kernels.pruned, x), dynamic=True)
    cheapest = ["pruned BLOCK=128 w2", "pruned BLOCK=128 w4"]
    assert machine.of(machine.compiled, "pruned") == [*cheapest, "pruned BLOCK=256 w4"]
    assert machine.of(machine.launched, "pruned") == ["pruned BLOCK=256 w4"]


def test_a_dynamic_size_whose_choice_was_not_compiled_gets_the_next_one(
    machine: Machine, kernels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "candidates_of_any_key", lambda _, __, pruned: pruned[:1])
    pin(tmp_path, {f"n=900{DTYPES}": config(128, 4)})
    run(lambda x: kernels.call(kernels.add, x), dynamic=True)
    assert machine.of(machine.launched) == [ALL[0]]
    assert [(miss.reason, miss.source) for miss in coverage_report().misses] == [("no key", "min_cost")]
    assert coverage_report().faults == {}


def test_a_kernel_that_two_graphs_share_goes_on_to_choose_for_its_sizes(
    machine: Machine, kernels: Any, tmp_path: Path
) -> None:
    pin(tmp_path, {KEY: config(128, 2), f"n=2000{DTYPES}": config(64, 4)})
    compiled = torch.compile(lambda x: kernels.call(kernels.add, x), dynamic=True)
    compiled(torch.ones(1000))
    machine.autotuners["add"].precompile()
    compiled(torch.ones(2000))
    assert machine.of(machine.launched) == [ALL[2], ALL[1]]
    assert [c.source for c in choice_log() if c.kernel == ADD] == ["table", "table"]


def test_code_in_cpp_has_one_config_for_a_dynamic_size(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    pin(tmp_path, {KEY: config(128, 2), f"n=2000{DTYPES}": config(64, 4)})
    machine.stores_cubins = True
    compiled = torch.compile(lambda x: kernels.call(kernels.add, x), dynamic=True)
    for size in (1000, 2000):
        compiled(torch.ones(size))
    assert machine.of(machine.launched) == [ALL[2], ALL[2]]
    assert [kernel for kernel, why in coverage_report().not_covered if "for all sizes" in why] == [ADD]


def test_a_dynamic_size_is_refused_at_its_launch(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    pin(tmp_path, {KEY: config(128, 2)}, on_miss="error")
    compiled = torch.compile(lambda x: kernels.call(kernels.add, x), dynamic=True)
    compiled(torch.ones(1000))
    with pytest.raises(LaunchError, match="n=2000"):
        compiled(torch.ones(2000))
    assert machine.of(machine.launched) == [ALL[2]]


def test_a_dynamic_size_whose_config_does_not_compile_gets_another_one(
    machine: Machine, kernels: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pin(tmp_path, {KEY: config(128, 2)})
    machine.broken = {ALL[2]}
    run(lambda x: kernels.call(kernels.add, x), dynamic=True)
    assert len(machine.of(machine.launched)) == 1
    assert [r.message for r in caplog.records if "launching another one" in r.message]


def test_pruning_of_a_dynamic_kernel_holds(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    pin(tmp_path, {KEY: config(64, 4), f"n=1200{DTYPES}": config(256, 2)}, kernel=ADD.replace("add", "pruned"))
    run(lambda x: kernels.call(kernels.pruned, x), dynamic=True)
    assert machine.of(machine.launched, "pruned") == ["pruned BLOCK=256 w2"]
    assert [(miss.reason, miss.source) for miss in coverage_report().misses] == [("pruned away", "nearest")]
    assert coverage_report().faults == {}


def test_a_ban_holds_for_dynamic_sizes(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    ban = {"kernel": ADD, "key": "*", "action": "ban", "config": config(64, 2), "reason": "it is wrong", "author": "me"}
    pin(tmp_path, {KEY: config(128, 2)}, extra={"overrides": [ban]}, on_miss="min_cost")
    run(lambda x: kernels.call(kernels.add, x), 77, dynamic=True)
    assert ALL[0] not in machine.compiled
    assert machine.of(machine.launched) == [ALL[1]]


def test_inductor_tunes_a_dynamic_size_once_and_that_is_reported(
    machine: Machine, kernels: Any, tmp_path: Path
) -> None:
    pin(tmp_path, {KEY: config(128, 2)}, on_miss="tune")
    compiled = torch.compile(lambda x: kernels.call(kernels.add, x), dynamic=True)
    for size in (1000, 2000):
        compiled(torch.ones(size))
    assert machine.of(machine.timed) == ALL
    assert [why for kernel, why in coverage_report().not_covered if kernel == ADD] == [
        "torch.compile made one config for all sizes of a dynamic dimension, chosen for the sizes of the first call"
    ]


def test_a_dynamic_size_votes_under_the_size_that_was_timed(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    record(tmp_path)
    run(lambda x: kernels.call(kernels.add, x), dynamic=True)
    uninstall()
    assert list(only_recording(tmp_path / "rec").votes[ARCH][ADD]) == [KEY]


def test_a_size_that_depends_on_data_is_decided_at_the_first_launch(
    machine: Machine, kernels: Any, tmp_path: Path
) -> None:
    pin(tmp_path, {KEY: config(128, 2)})

    def of_size(size: Any) -> Any:
        count = size.item()
        torch._check(count >= 2)
        return kernels.call(kernels.add, torch.empty(count))

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch.compile(of_size)(torch.tensor(1000))
    assert machine.of(machine.timed) == []
    assert machine.of(machine.launched) == [ALL[2]]
    assert [(c.key, c.source) for c in choice_log() if c.kernel == ADD] == [(KEY, "table")]
    assert coverage_report().faults == {}


def test_kernels_of_inductor_are_compared_and_named(machine: Machine, kernels: Any, tmp_path: Path) -> None:
    machine.times = {"triton_poi_fused_add_0 XBLOCK=128 w4": 0.5}
    for source in ("timed", "echo"):
        record(tmp_path / source)
        run(lambda x: x + 1)
        (choice,) = choice_log()
        assert choice.kernel == "torch._inductor.triton_poi_fused_add_0"
        assert (json.loads(choice.config)["kwargs"], choice.source) == ({"XBLOCK": 128}, source)
        assert coverage_report().reached == {choice.kernel: "chosen by Inductor"}
        uninstall()
        machine.new_process()
        assert not list(tmp_path.rglob("r.job.*.json"))  # they are compared, not recorded


def test_what_was_compiled_before_install_is_one_warning(
    machine: Machine, kernels: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled = torch.compile(lambda x: kernels.call(kernels.add, x))
    compiled(torch.ones(1000))
    pin(tmp_path, {KEY: config(128, 2)})
    for _ in range(3):
        compiled(torch.ones(1000))
    assert coverage_report().not_covered == ((ADD, "captured by torch.compile"),)
    uninstall()
    assert len([r for r in caplog.records if f"{ADD} is not pinned" in r.message]) == 1
