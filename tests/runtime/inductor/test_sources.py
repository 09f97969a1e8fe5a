"""What we rely on in torch.compile, read in the sources of the oldest and newest supported torch and of the installed one.

The wheels are not installed: single files are read from the package index. Without it, these tests are skipped.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import ast
from functools import lru_cache

import pytest

pytest.importorskip("torch")

from tests.runtime.inductor.torch_sources import (
    calls,
    function,
    installed_sources,
    newest,
    parameters,
    sources,
    wheels,
)
from tuning_registry.runtime.inductor.seams import CHOOSE, DEFINE, KEY, LOAD, META, SEAMS, SELECT, Seam

OLDEST = "2.6.0"
HEURISTICS = "_inductor.runtime.triton_heuristics"
SIDE_TABLE = "_higher_order_ops.triton_kernel_wrap"
MODULES = {f"_inductor.{seam.module}" for seam in SEAMS} | {SIDE_TABLE, "_inductor.ir", "_inductor.sizevars"}


@lru_cache
def texts_of(release: str) -> dict[str, str]:
    """The sources of a release; skips the test if they cannot be had."""
    if release == "installed":
        return installed_sources(MODULES)
    try:
        found = wheels()
        return sources(found[newest(found) if release == "newest" else release], MODULES)
    except OSError as error:
        pytest.skip(f"the sources of torch ({release}) cannot be read from the package index: {error}")


@pytest.fixture(params=[OLDEST, "installed", "newest"])
def texts(request: pytest.FixtureRequest) -> dict[str, str]:
    return texts_of(request.param)


def of(texts: dict[str, str], seam: Seam) -> ast.FunctionDef:
    found = function(texts[f"_inductor.{seam.module}"], seam.owner, seam.name)
    assert found is not None, f"torch has no {seam}"
    return found


@pytest.mark.parametrize("seam", SEAMS, ids=str)
def test_every_function_is_there_with_the_parameters_that_are_passed_on(texts: dict[str, str], seam: Seam) -> None:
    found = of(texts, seam)
    names = parameters(found)
    assert tuple(names[: len(seam.takes)]) == seam.takes
    if seam is META:
        assert names == []
    kinds = {getattr(one, "id", "") for one in found.decorator_list} & {"classmethod", "staticmethod"}
    assert bool(kinds) is seam.is_of_class
    if seam is SELECT:
        assert any(isinstance(call.func, ast.Name) for call in calls(ast.unparse(found), "benchmark"))


def test_kernels_are_defined_by_position_with_grids_third_and_a_fused_epilogue_fourth(texts: dict[str, str]) -> None:
    names = parameters(of(texts, DEFINE))
    after = ["restore_value_args", "reset_to_zero_args", "grids", "epilogue_fusion", "launch_kwargs"]
    assert names[3:] == after[: len(names) - 3]
    assert len(names) >= 5
    (call,) = calls(texts["_inductor.ir"], DEFINE.name)
    assert len(call.args) == len(names) - len([name for name in names[5:] if name in {k.arg for k in call.keywords}])


def test_the_note_goes_from_the_definition_into_generated_code(texts: dict[str, str]) -> None:
    text = ast.unparse(of(texts, DEFINE))
    assert "inductor_meta_common()" in text
    assert "inductor_meta={inductor_meta!r}" in text
    assert text.index("inductor_meta_common()") < text.index("inductor_meta={inductor_meta!r}")


def test_the_key_of_the_caches_has_a_tag(texts: dict[str, str]) -> None:
    stated = ast.unparse(of(texts, KEY))
    assert "self.cache_key_tag = " in stated
    assert "self.user_defined_triton_source" in stated


def test_a_launch_chooses_between_several_launchers_only(texts: dict[str, str]) -> None:
    run = function(texts[HEURISTICS], "CachingAutotuner", "run")
    assert run is not None
    text = ast.unparse(run)
    assert "if len(self.launchers) > 1:" in text
    assert f"self.{CHOOSE.name}(*args" in text
    assert f"self.{LOAD.name}()" in text
    assert "launcher, = self.launchers" in text.replace("(launcher,)", "launcher,")


def test_the_winner_is_the_smallest_of_the_timings_by_launcher(texts: dict[str, str]) -> None:
    text = ast.unparse(of(texts, CHOOSE))
    assert "timings = self.benchmark_all_configs(*args" in text
    assert "builtins.min(timings, key=timings.get)" in text


def test_kernels_of_the_user_are_marked_and_keep_their_meta(texts: dict[str, str]) -> None:
    made = function(texts[HEURISTICS], "CachingAutotuner", "__init__")
    assert made is not None
    text = ast.unparse(made)
    assert "self.custom_kernel = custom_kernel" in text
    assert "{} if inductor_meta is None else inductor_meta" in text
    assert "custom_kernel=True" in ast.unparse(of(texts, DEFINE))


def test_dynamo_keeps_traced_kernels_in_its_side_table(texts: dict[str, str]) -> None:
    text = texts[SIDE_TABLE]
    assert "kernel_side_table = KernelSideTable()" in text
    assert "self.id_to_kernel[" in text or "id_to_kernel:" in text
    assert "variable.kernel_idx = kernel_side_table.add_kernel(kernel)" in text


def test_a_size_has_a_hint(texts: dict[str, str]) -> None:
    sizes = texts["_inductor.sizevars"]
    assert "def guarding_hint_or_throw(" in sizes or "def size_hint(" in sizes
