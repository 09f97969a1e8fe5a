"""Agreement over gloo between real processes, and its bookkeeping in one."""

# ruff: noqa: E402 - what needs torch is imported once it is known to be there

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from tests.runtime.fakes import Tensor, Timer, autotuner, launch, text_of, three
from tests.runtime.test_process import python
from tuning_registry.runtime import (
    agreement,
    choice_digest,
    choice_log,
    coverage_report,
    install,
    maybe_verify_choices,
    verify_choices,
)
from tuning_registry.runtime.job import collectives

ROOT = Path(__file__).parents[2]
TEXTS = [text_of(config) for config in three()]

# Every scenario runs in one set of three processes, one after the other; each leaves a dict per rank.
SCRIPT = """
    import logging, os, pickle, sys
    import torch.distributed as dist
    from tests.runtime.fakes import *
    from tuning_registry.errors import AgreementError
    from tuning_registry.runtime import *
    from tuning_registry.runtime import agreement
    from tuning_registry.runtime.job import collectives
    RANK, SIZE, FOLDER = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1]
    lines, sent = [], []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("tuning_registry").addHandler(handler)

    def counting(name):
        real = getattr(collectives, name)
        def call(where, payload, *rest):
            sent.append((name, len(payload)))
            return real(where, payload, *rest)
        return call

    for name in ("all_gather_numbers", "all_gather_bytes"):
        setattr(agreement, name, counting(name))

    def tune(winner, name="kernel", M=16, source=None, **options):
        timer = Timer([1.0 if i == winner else 2.0 for i in range(3)])
        kernel = autotuner(name=name, timer=timer, **options)
        if source is not None:
            kernel.base_fn.src = source
        launch(kernel, Tensor(), Tensor(), M)

    def agreeing(out):
        install({"arch": "sm90"})
        for n in range(40):
            tune(1, M=n)
        out["results"] = [(bool(r), r.ranks, r.compared, r.new) for r in (verify_choices(), verify_choices())]
        out["digest"] = choice_digest()

    def news(out):
        install({"arch": "sm90", "config_invariant": ["free"]})
        tune(RANK, name="free")
        tune(1, name="same")
        tune(0, name=f"only{RANK}")
        if RANK < 2:
            tune(RANK, name="split")
        a = verify_choices()
        tune(2, name="late")
        b = verify_choices()
        out["results"] = [(bool(r), r.compared, [(d.kernel, d.key, d.ranks) for d in r.disagreements]) for r in (a, b)]

    def spellings(out):
        install({"arch": "sm90"})
        tune(1, M=True if RANK == 0 else 1 if RANK == 1 else 1.0)
        r = verify_choices()
        out["result"] = (bool(r), r.compared)

    def strict(out):
        install({"arch": "sm90", "verify_strict": True, "verify_every": 2})
        group = dist.new_group([1, 2])
        tune(RANK)
        out["raised"] = 0
        for step in range(1, 5):
            try:
                maybe_verify_choices(step)
            except AgreementError as fault:
                out["raised"] += 1
                out["text"] = str(fault)
        try:
            out["sub"] = verify_choices(group).ranks
        except AgreementError as fault:
            out["sub"] = str(fault)

    def chaos(out):
        kernel = autotuner()
        results = []
        for policy, runs in (({}, True), ({"chaos": True}, True), ({}, False)):
            install({"mode": "pinned", "arch": "sm90", **policy})
            if runs:
                launch(kernel)
            results.append(verify_choices())
        launch(kernel)
        results.append(verify_choices())
        out["results"] = [(bool(r), r.compared) for r in results]

    def changed(out):
        install({"arch": "sm90"})
        tune(RANK)
        a = verify_choices()
        tune(2)
        b = verify_choices()
        out["results"] = [[d.ranks for d in r.disagreements] for r in (a, b)]

    def without(out):
        uninstall()
        if RANK:
            install({"arch": "sm90", "modules": ["pkg"]})
            tune(RANK)
            tune(0, module="other.ops")
        r = verify_choices()
        out["result"] = (bool(r), r.ranks, r.compared, r.not_covered)

    def factories(out):
        install({"arch": "sm90"})
        for winner, source in ((0, "def relu(): ..."), (2, "def gelu(): ..."))[:: -1 if RANK else 1]:
            tune(winner, source=source)
        if RANK == 2:
            tune(1, source="def third(): ...")
        r = verify_choices()
        out["result"] = (bool(r), r.compared, r.other_code)
        out["digest"] = choice_digest()

    def other_code(out):
        install({"arch": "sm90", "verify_strict": True})
        tune(RANK, source=f"def version_{min(RANK, 1)}(): ...", name="stale")
        tune(1, name="same")
        try:
            verify_choices()
        except AgreementError as fault:
            out["text"] = str(fault)
        tune(0, source="def version_1(): ...", name="stale") if RANK == 2 else None
        tune(0, source="def version_1(): ...", name="stale") if RANK == 1 else None
        r = verify_choices()
        out["result"] = (bool(r), r.compared, r.other_code)

    def sharing(out):
        install({"arch": "sm90", "record_path": FOLDER + "/shared/r", "run": "shared", "split": 3, "split_repeats": 1})
        tune(1, name="shared")
        out["result"] = bool(verify_choices())
        verify_choices()

    def nothing_compared(out):
        install({"arch": "sm90"})
        tune(RANK, name=f"only{RANK}")
        out["results"] = [(bool(r), r.compared) for r in (verify_choices(), verify_choices())]

    def raising(out):
        def behave(*args, **kwargs):
            if kernel.timer.calls == 3 and RANK == 0:
                raise RuntimeError("the launch")
        install({"arch": "sm90", "source": "another policy"})
        kernel = autotuner(timer=Timer([1.0 + RANK, 2.0, 1.5], runs=False), behave=behave)
        try:
            launch(kernel)
        except RuntimeError:
            out["raised"] = True
        out["log"] = len(choice_log())
        out["result"] = verify_choices().compared

    def naming(out):
        install({"record_path": FOLDER + "/rec/r", "arch": "sm90"})
        tune(RANK)
        uninstall()

    dist.init_process_group("gloo", init_method=f"file://{FOLDER}/store", rank=RANK, world_size=SIZE)
    outs = {}
    for scenario in (agreeing, news, spellings, strict, chaos, changed, without, factories, other_code, sharing, nothing_compared,
                     raising, naming):
        lines.clear(), sent.clear()
        scenario(out := {})
        outs[scenario.__name__] = {**out, "lines": list(lines), "sent": list(sent)}
    pickle.dump(outs, open(f"{FOLDER}/out{RANK}", "wb"))
    dist.barrier()
    dist.destroy_process_group()
"""
SIZE = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder in which the processes have left their answers."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "rec").mkdir()
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("TUNING_REGISTRY_", "SLURM_", "TORCHELASTIC_"))
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder)], cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT), "RANK": str(rank), "WORLD_SIZE": str(SIZE), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(SIZE)
    ]  # fmt: skip
    try:
        assert [process.wait(timeout=240) for process in processes] == [0] * SIZE
    finally:
        for process in processes:
            process.kill()
    return folder


@pytest.fixture
def ranks(folder: Path, request: pytest.FixtureRequest) -> Any:
    """By rank, what the scenario of that name left."""
    return [pickle.loads((folder / f"out{rank}").read_bytes())[request.param] for rank in range(SIZE)]


def scenario(name: Any) -> Any:
    return pytest.mark.parametrize("ranks", [name], indirect=True)


@scenario("agreeing")
def test_ranks_that_agree_exchange_one_small_message_a_check(ranks: Any) -> None:
    for out in ranks:
        assert out["results"] == [(True, 3, 40, True), (True, 3, 40, False)]
        assert out["sent"] == [("all_gather_numbers", 7)] * 2
        assert out["digest"] == ranks[0]["digest"]
        assert out["lines"] == []


@scenario("news")
def test_only_what_several_ranks_chose_is_compared_and_only_news_are_sent(ranks: Any) -> None:
    key = "M=16|torch.float32|torch.float32"
    split = [("pkg.ops.split", key, {TEXTS[0]: (0,), TEXTS[1]: (1,)})]
    for out in ranks:
        assert out["results"] == [(False, 2, split), (False, 3, split)]
        sizes = [size for name, size in out["sent"] if name == "all_gather_bytes"]
        assert sizes[0] <= 24 * 3
        assert len(sizes) == 2  # digests, then the texts of the one that differs; the second check sent none
    assert [len([line for line in out["lines"] if "disagree" in line]) for out in ranks] == [1, 0, 0]
    assert "rank 0 chose" in ranks[0]["lines"][0]
    assert "rank 1 chose" in ranks[0]["lines"][0]


@scenario("spellings")
def test_equal_spellings_of_a_key_are_one_entry(ranks: Any) -> None:
    assert [out["result"] for out in ranks] == [(True, 1)] * 3


@scenario("strict")
def test_strict_raises_on_every_rank_and_in_a_subgroup_ranks_count_within_it(ranks: Any) -> None:
    for out in ranks:
        assert out["raised"] == 2
        assert "3 ranks chose different configs for 1 of 1 entry: pkg.ops.kernel M=16" in out["text"]
    assert ranks[0]["sub"] == 1
    assert all("2 ranks chose different" in out["sub"] and "rank 0 chose" in out["sub"] for out in ranks[1:])


@scenario("chaos")
def test_chaos_is_the_positive_control_and_a_new_policy_starts_afresh(ranks: Any) -> None:
    assert [out["results"] for out in ranks] == [[(True, 1), (False, 1), (True, 0), (True, 1)]] * 3


@scenario("changed")
def test_a_choice_that_changes_is_told_anew(ranks: Any) -> None:
    assert [out["results"] for out in ranks] == [[[{TEXTS[rank]: (rank,) for rank in range(3)}], []]] * 3


@scenario("without")
def test_a_rank_without_a_policy_hangs_nobody_and_gaps_are_named(ranks: Any) -> None:
    assert [out["result"][:3] for out in ranks] == [(False, 3, 1)] * 3
    assert [out["result"][3] for out in ranks] == [(), *[(("other.ops.kernel", "out of scope"),)] * 2]


@scenario("factories")
def test_functions_that_share_a_name_are_compared_by_their_source_in_any_order(ranks: Any) -> None:
    assert [out["result"] for out in ranks] == [(True, 2, ())] * 3
    assert ranks[0]["digest"] == ranks[1]["digest"] != ranks[2]["digest"]
    assert [out["lines"] for out in ranks] == [[]] * 3


@scenario("sharing")
def test_ranks_that_share_the_work_are_said_to_differ_once(ranks: Any) -> None:
    assert [out["result"] for out in ranks] == [False] * 3
    said = [[line for line in out["lines"] if "share the work" in line and "differ" in line] for out in ranks]
    assert [len(lines) for lines in said] == [1, 0, 0]
    assert "the configs of 1 of 1 entries differ" in said[0][0]
    assert not any("ranks disagree on" in line for out in ranks for line in out["lines"])


@scenario("other_code")
def test_ranks_that_run_different_code_under_one_name_are_named(ranks: Any) -> None:
    """Ranks 1 and 2 run the same code and differ in its config; rank 0 runs other code."""
    for out in ranks:
        assert "3 ranks chose different configs for 1 of 2 entries: pkg.ops.stale" in out["text"]
        assert "ranks 0" not in out["text"]
        assert out["result"] == (True, 2, ("pkg.ops.stale",))
    said = [
        [line for line in out["lines"] if "functions with different source code as pkg.ops.stale" in line]
        for out in ranks
    ]
    assert [len(lines) for lines in said] == [1, 0, 0]


@scenario("nothing_compared")
def test_a_check_that_compares_nothing_says_so_once(ranks: Any) -> None:
    assert [out["results"] for out in ranks] == [[(True, 0)] * 2] * 3
    said = [[line for line in out["lines"] if "no choice was compared" in line] for out in ranks]
    assert [len(lines) for lines in said] == [1, 0, 0]
    assert "no choice was compared: 3 of 3 ranks chose configs" in said[0][0]


@scenario("raising")
def test_the_choice_of_a_launch_that_raised_is_not_compared(ranks: Any) -> None:
    assert [out.get("raised", False) for out in ranks] == [True, False, False]
    assert [out["log"] for out in ranks] == [0, 1, 1]
    assert [out["result"] for out in ranks] == [1] * 3  # of ranks 1 and 2


def test_ranks_agree_on_a_run_name_over_the_groups_store(folder: Path) -> None:
    names = sorted(file.name for file in (folder / "rec").iterdir())
    assert len({name.split(".")[1] for name in names}) == 1
    assert sorted(name.split(".")[-2] for name in names) == ["rank0", "rank1", "rank2"]


def test_without_a_group_there_is_nobody_to_compare_with() -> None:
    assert verify_choices().ranks == 1
    assert maybe_verify_choices(1) is None
    install({"verify_every": 2, "arch": "sm90"})
    launch(autotuner())
    assert maybe_verify_choices(1) is None
    result = maybe_verify_choices(2)
    assert result is not None
    assert (result.ranks, result.compared, bool(result)) == (1, 0, True)
    counted = [maybe_verify_choices() is not None for _ in range(6)]
    assert sum(counted) == 3


def test_the_log_and_digest_hold_what_stands() -> None:
    empty = choice_digest()
    install({"arch": "sm90", "config_invariant": ["free"]})
    assert (choice_digest(), choice_log()) == (empty, [])
    launch(autotuner(name="free"))
    assert choice_digest() == empty
    launch(autotuner(name="b", timer=Timer([1.0, 2.0, 3.0])))
    one = choice_digest()
    launch(autotuner(name="a"))
    assert [choice.kernel for choice in choice_log()] == ["pkg.ops.a", "pkg.ops.b", "pkg.ops.free"]
    launch(autotuner(name="b", timer=Timer([3.0, 2.0, 1.0])))
    assert choice_log()[1].config == TEXTS[2]
    assert len({empty, one, choice_digest()}) == 3


@pytest.mark.parametrize("mode", ["auto", "record", "pinned"])
def test_a_launch_that_raised_is_not_a_choice_and_one_that_is_repeated_is(tmp_path: Path, mode: Any) -> None:
    install(mode=mode, arch="sm90", record_path=tmp_path / "r" if mode == "record" else None)
    fails = True

    def behave(*args: Any, **kwargs: Any) -> None:
        if fails and kernel.timer.calls in {0, 3}:
            raise RuntimeError("the launch")

    kernel, other = autotuner(timer=Timer(runs=False), behave=behave), autotuner(name="other")
    with pytest.raises(RuntimeError, match="the launch"):
        launch(kernel)
    assert choice_log() == []
    launch(other)
    assert [choice.kernel for choice in choice_log()] == ["pkg.ops.other"]
    fails = False
    launch(kernel)
    assert [choice.kernel for choice in choice_log()] == ["pkg.ops.kernel", "pkg.ops.other"]


def test_a_launch_that_raises_later_does_not_take_back_a_choice() -> None:
    install(arch="sm90")
    kernel = autotuner()
    launch(kernel)
    kernel.fn.behave = lambda *args, **kwargs: 1 / 0
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            launch(kernel)
    assert len(choice_log()) == 1


def test_no_argument_of_a_launch_is_kept_alive() -> None:
    install(arch="sm90")
    kernel, x = autotuner(), Tensor()
    gone = weakref.ref(x)
    launch(kernel, x, Tensor(), 16)
    kernel.fn.launches.clear()
    del x
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("alone")
def test_compiled_kernels_are_reported_as_not_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._higher_order_ops.triton_kernel_wrap as wrap

    monkeypatch.setattr(
        wrap.kernel_side_table, "id_to_kernel", {0: autotuner(), 1: autotuner([three()[0]], name="one")}
    )
    install({"arch": "sm90"})
    assert coverage_report().not_covered == (("pkg.ops.kernel", "captured by torch.compile"),)
    assert verify_choices().not_covered == (("pkg.ops.kernel", "captured by torch.compile"),)


def test_checks_of_two_groups_in_two_threads_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other ranks may come to the second group first: a lock over both would be a deadlock."""
    second_is_in = threading.Event()
    first, second = autotuner(), autotuner()  # any two objects stand for groups

    def gather(where: Any, numbers: Any) -> Any:
        if where.identity is second:
            second_is_in.set()
        assert second_is_in.wait(10)
        return [list(numbers)] * 2

    monkeypatch.setattr(agreement, "current_group", lambda group: collectives.Group(group, group, 0, 2, "cpu"))
    monkeypatch.setattr(agreement, "all_gather_numbers", gather)
    install({"arch": "sm90"})
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda group=group: results.append(verify_choices(group))) for group in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [result.ranks for result in results] == [2, 2]


def test_a_group_that_was_checked_can_end() -> None:
    """Else it would keep its threads, its sockets and its port."""
    code = """
        import gc, weakref
        import torch.distributed as dist
        from tuning_registry.runtime import install, verify_choices
        install({"mode": "auto"})
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
        group = weakref.ref(dist.group.WORLD)
        print(verify_choices().ranks, group() is None)
        dist.destroy_process_group()
        gc.collect()
        print(group() is None)
    """
    assert python("-c", textwrap.dedent(code)).stdout.split() == ["1", "False", "True"]
