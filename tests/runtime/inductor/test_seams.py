"""Our functions inside Inductor: put in when Inductor is imported, harmless when something is missing or fails."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.runtime.fakes import write_table
from tests.runtime.inductor.conftest import Machine
from tests.runtime.inductor.test_compile import ADD, ALL, ARCH, KEY, config, pin, record, run
from tuning_registry.runtime import choice_log, control, coverage_report, uninstall
from tuning_registry.runtime.inductor import seams
from tuning_registry.runtime.inductor.imports import ImportWatch
from tuning_registry.runtime.inductor.launches import CompiledLaunches
from tuning_registry.runtime.inductor.seams import Seam, Seams

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
ROOT = Path(__file__).parents[3]


def python(code: str, folder: Path) -> str:
    """What a program prints; torch is there, and tests are not."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip


def test_install_imports_nothing_of_inductor_and_sees_it_when_it_comes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    printed = python(
        """
        import sys
        import torch
        from tuning_registry.runtime import install, uninstall
        before = {name for name in sys.modules if name.startswith("torch._inductor")}
        install(mode="record", record_path="rec/r", arch="sm90")
        print({name for name in sys.modules if name.startswith("torch._inductor")} == before)
        print("torch._inductor.runtime.triton_heuristics" in before)
        from torch._inductor.runtime import triton_heuristics
        print(triton_heuristics.CachingAutotuner.precompile.__module__)
        print(type(triton_heuristics.__spec__.loader).__name__, triton_heuristics.__loader__ is triton_heuristics.__spec__.loader)
        uninstall()
        print(triton_heuristics.CachingAutotuner.precompile.__module__)
        print(any(type(finder).__module__.startswith("tuning_registry") for finder in sys.meta_path))
        """,
        tmp_path,
    )
    assert printed.splitlines() == [
        "True", "False", "tuning_registry.runtime.inductor.seams", "SourceFileLoader True",
        "torch._inductor.runtime.triton_heuristics", "False",
    ]  # fmt: skip


def test_a_watched_import_that_fails_fails_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "watched_and_broken.py").write_text("raise RuntimeError('broken')")
    monkeypatch.syspath_prepend(tmp_path)
    called: list[ModuleType] = []
    watch = ImportWatch({"watched_and_broken": called.append, "watched_and_absent": called.append})
    watch.start()
    try:
        with pytest.raises(RuntimeError, match="broken"):
            __import__("watched_and_broken")
        with pytest.raises(ModuleNotFoundError):
            __import__("watched_and_absent")
    finally:
        watch.stop()
    assert called == []


@pytest.mark.parametrize("seam", seams.SEAMS, ids=lambda seam: seam.name)
def test_a_missing_function_is_one_warning_and_training_goes_on(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seam: Seam
) -> None:
    from tests.runtime.inductor import kernels

    fits = seams._fits
    monkeypatch.setattr(seams, "_fits", lambda owner, one: one != seam and fits(owner, one))
    monkeypatch.setattr(control, "_seams", Seams())
    pin(tmp_path, {KEY: config(128, 2)})
    run(lambda x: kernels.call(kernels.add, x))
    report = coverage_report()
    assert report.faults == {}
    assert [kernel for kernel, why in report.not_covered if str(seam) in why] == ["torch.compile"]
    assert len([r for r in caplog.records if f"has no {seam}" in r.message]) == 1
    of_notes = seam in {seams.KEY, seams.DEFINE, seams.META, seams.LOAD}
    assert machine.of(machine.launched) == [ALL[0] if of_notes else ALL[2]]
    uninstall()
    assert len([r for r in caplog.records if f"{ADD} is not pinned" in r.message]) == of_notes


def test_a_function_with_other_parameters_is_as_good_as_missing() -> None:
    class Owner:
        def lookup(self, choices: Any, benchmark: Any) -> None: ...

    assert seams._fits(Owner, Seam("codecache", "Owner", "lookup", ("choices",)))
    assert not seams._fits(Owner, Seam("codecache", "Owner", "lookup", ("choices", "op")))
    assert not seams._fits(None, Seam("codecache", "Owner", "lookup"))


def test_a_function_of_another_kind_is_as_good_as_missing() -> None:
    class Owner:
        value = property(lambda _: 1)

        def of_object(self) -> None: ...

        @classmethod
        def of_class(cls) -> None: ...

    fits = {name: [seams._fits(Owner, Seam("codecache", "Owner", name, is_of_class=of)) for of in (False, True)]
            for name in ("of_object", "of_class", "value", "absent")}  # fmt: skip
    assert fits == {"of_object": [True, False], "of_class": [False, True], "value": [False] * 2, "absent": [False] * 2}


class Facts:
    """Facts about a kernel that are not a mapping, as a later release may have them."""


@pytest.fixture
def planned() -> Any:
    """Our functions, with a handler that keeps the second of the configs and makes a note."""

    class Handler:
        def settle(self) -> None: ...

        def cache_tag(self, _: Any) -> str:
            return "tag"

        def plan(self, *_: Any, **__: Any) -> Any:
            return seams.Plan({"version": 1}, [1])

    made: Any = Seams()
    made._handler = Handler()
    made._patches = dict.fromkeys(seams.SEAMS)
    return made


def test_what_a_later_release_passes_on_or_returns_does_not_raise(planned: Any) -> None:
    asked: list[Any] = []

    class Kernel:
        @classmethod
        def inductor_meta_common(cls, *args: Any, **kwargs: Any) -> Any:
            asked.append((args, kwargs))
            return kwargs.get("meta")

    meta = planned._make_meta(vars(Kernel)["inductor_meta_common"]).__get__(None, Kernel)
    facts = Facts()
    planned._local.note = {"version": 1}
    assert meta("cuda", meta={"a": 1}) == {"a": 1, "tuning_registry": {"version": 1}}
    assert meta("cuda", meta=facts) is facts
    assert asked == [(("cuda",), {"meta": {"a": 1}}), (("cuda",), {"meta": facts})]


def test_configs_that_cannot_be_narrowed_stay_as_they_are(planned: Any) -> None:
    passed: list[Any] = []
    define = planned._make_define(lambda *args, **_: passed.append(args))
    configs = iter(("one", "two"))
    define("wrapper", "kernel", configs, {}, (), ())
    assert passed == [("wrapper", "kernel", configs, {}, (), ())]
    define("wrapper", "kernel", ["one", "two"], {}, (), ())
    assert passed[1] == ("wrapper", "kernel", ["two"], {}, (), ())


def test_without_a_place_for_the_mark_nothing_is_put_into_code(planned: Any) -> None:
    class Details:
        __slots__ = ()

    planned._make_key(lambda *_: None)(Details())
    passed: list[Any] = []
    planned._make_define(lambda *args, **_: passed.append(args))("wrapper", "kernel", ["one", "two"], {})
    assert passed == [("wrapper", "kernel", ["one", "two"], {})]


def test_sizes_that_are_passed_by_name_get_the_first_launcher() -> None:
    from tuning_registry.runtime.inductor.generated import dispatching

    def first(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    launcher = dispatching([first], [0], lambda _: pytest.fail("asked"))
    assert launcher(n=4) == ((), {"n": 4})
    assert launcher([4]) == (([4],), {})


@pytest.mark.parametrize("name", ["cache_tag", "plan", "loaded", "choose", "timed", "chosen", "settle"])
@pytest.mark.parametrize("mode", ["record", "pinned"])
def test_a_fault_of_ours_leaves_inductor_to_itself(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: str
) -> None:
    from tests.runtime.inductor import kernels

    def fail(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(CompiledLaunches, name, fail)
    if mode == "record":
        record(tmp_path)
    else:
        pin(tmp_path, {KEY: config(128, 2)})
    run(lambda x: kernels.call(kernels.add, x))
    assert len(machine.of(machine.launched)) == 1
    assert coverage_report().faults


def test_without_a_mark_in_the_cache_key_nothing_is_put_into_code(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.runtime.inductor import kernels

    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(CompiledLaunches, "cache_tag", fail)
        pin(tmp_path, {KEY: config(128, 2)})
        run(lambda x: kernels.call(kernels.add, x))
    uninstall()
    machine.new_process()
    run(lambda x: kernels.call(kernels.add, x))
    assert machine.of(machine.launched) == [ALL[0]]


def test_a_choice_between_templates_and_libraries_is_noted(machine: Machine, tmp_path: Path) -> None:
    from torch._inductor.codecache import PersistentCache

    class TritonTemplateCaller:
        def __init__(self, number: int) -> None:
            self.name, self.description = f"triton_mm_{number}", f"BLOCK_K={number}"

        def hash_key(self) -> str:
            return self.name

        def precompile(self) -> None: ...

    record(tmp_path)
    choices = [TritonTemplateCaller(32), TritonTemplateCaller(64)]
    with __import__("torch")._inductor.config.patch(max_autotune_gemm=True):
        for _ in range(2):
            PersistentCache().lookup(
                choices, "mm", "[(8, 8)]", lambda several: {one: 2.0 / int(one.name[10:]) for one in several}
            )
    (choice,) = choice_log()
    assert (choice.kernel, choice.key) == ("torch._inductor.mm", "[(8, 8)]")
    assert json.loads(choice.config) == {"choice": "TritonTemplateCaller", "as": "BLOCK_K=64"}
    assert choice.source == "timed"


def test_a_mode_that_is_open_is_settled_by_the_first_compilation(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from tests.runtime.inductor import kernels
    from tuning_registry.runtime import active_policy, install

    path = write_table(tmp_path / "tables", {ADD: {KEY: config(128, 2)}})
    install(table_path=path, arch=ARCH)
    monkeypatch.setattr(control, "_asks_for_determinism", lambda: True)
    run(lambda x: kernels.call(kernels.add, x))
    policy = active_policy()
    assert policy is not None
    assert policy.mode == "pinned"
    assert machine.of(machine.launched) == [ALL[2]]
    assert torch.is_grad_enabled()


def test_ranks_that_differ_in_a_compiled_kernel_are_found(machine: Machine, tmp_path: Path) -> None:
    from tests.runtime.inductor import kernels

    logs = []
    for rank, fastest in enumerate((ALL[0], ALL[3])):
        machine.new_process(f"cache{rank}")
        record(tmp_path / str(rank))
        machine.times = {fastest: 0.5, f"triton_poi_fused_add_1 XBLOCK={128 * (rank + 1)} w4": 0.5}
        run(lambda x: kernels.call(kernels.add, x) + 1)
        logs.append(choice_log())
        uninstall()
    assert [choice.entry for choice in logs[0]] == [choice.entry for choice in logs[1]]
    differing = [one.kernel for one, other in zip(*logs, strict=True) if one.config != other.config]
    assert differing == [ADD, "torch._inductor.triton_poi_fused_add_1"]


def test_a_launcher_without_code_has_no_names() -> None:
    from tuning_registry.runtime.inductor.generated import launch_names

    assert launch_names(print) == ()
