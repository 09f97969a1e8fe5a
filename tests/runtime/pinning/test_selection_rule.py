"""The documented rule that selects a config, restated plainly, against what real launches get."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import gc
import importlib
import itertools
import logging
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.fakes import ARCH, Config, Tensor, autotuner, launched, write_table
from tuning_registry.errors import LaunchError
from tuning_registry.runtime import choice_digest, choice_log, install, uninstall

QUALIFIED, BARE = "pkg.ops.kernel", "kernel"
SHAPES = (1, 16, 32)  # of M, the key's only value; Triton takes 1 and True for one key
REFUSED = "refused"

# A candidate as a plain tuple: BLOCK_M, EVEN, num_warps, num_stages.
Plain = tuple[int, bool, int, int]
candidates = st.tuples(
    st.sampled_from((16, 32, 64)), st.booleans(), st.sampled_from((2, 4, 8)), st.sampled_from((1, 2, 3))
)
places = st.tuples(st.sampled_from((QUALIFIED, BARE, "other.kernel")), st.sampled_from(("*", *SHAPES)))


def stored(config: Plain, spelling: type = bool) -> dict[str, Any]:
    block, even, warps, stages = config
    return {"kwargs": {"BLOCK_M": block, "EVEN": spelling(even)}, "num_warps": warps, "num_stages": stages}


def key_text(shape: Any, style: int) -> str:
    """The key of a shape in one of the spellings that a table may hold."""
    if shape == "*":
        return "*"
    value = {0: shape, 1: bool(shape) if shape == 1 else shape, 2: float(shape)}[style]
    return f"M={value}|torch.float32|torch.float32"


# On a logarithmic scale in 64ths of an octave; sizes that 16 divides are half an octave from one that it does not.
PLACE = {1: 0, 16: 256, 32: 320}


def nearest(case: dict[str, Any], shape: int, allowed: list[Plain]) -> Any:
    """The winner of the nearest key that is allowed: of the qualified name first, then of the bare one."""
    for name in (QUALIFIED, BARE):
        keys = {other: config for (kernel, other), config in case["entries"].items() if kernel == name and other != "*"}
        is_flag = case["style"] == 1 and 1 in keys  # M=True makes M a flag of the kernel
        ordered = sorted(
            (
                128 * (shape != other)
                if is_flag
                else abs(PLACE[shape] - PLACE[other]) + 32 * ((shape == 1) != (other == 1)),
                key_text(other, case["style"]),
                config,
            )
            for other, config in keys.items()
        )
        for _, _, config in ordered:
            if config in allowed:
                return config
    return None


def restated(case: dict[str, Any], shape: int) -> Any:
    """The documented rule, in the order of the documentation."""
    remaining = [c for c in case["configs"] if c not in case["pruned"]] or case["configs"][:1]

    def places_of(shape: int) -> list[tuple[str, Any]]:
        return [(QUALIFIED, shape), (QUALIFIED, "*"), (BARE, shape), (BARE, "*")]

    banned = set()
    for place in places_of(shape):
        for config in case["bans"].get(place, ()):
            is_lifted = config == case["pins"].get((QUALIFIED, shape)) and place != (QUALIFIED, shape)
            banned |= set() if is_lifted else {config}
    allowed = [c for c in remaining if c not in banned]
    if not allowed:
        return REFUSED
    entry = next((case["entries"][place] for place in places_of(shape) if place in case["entries"]), None)
    if entry is not None and entry in allowed:
        return entry
    if entry is None and len(remaining) == 1:
        return remaining[0]
    sizes = case["sizes"]
    fields = ("BLOCK_M", "EVEN", "num_warps", "num_stages")
    known = [name for name in sizes if name in fields]
    matching = [c for c in allowed if known and all(c[fields.index(name)] == sizes[name] for name in known)]
    if not matching and case["on_miss"] == "error":
        return REFUSED
    near = nearest(case, shape, allowed) if not matching and case["on_miss"] == "nearest" else None
    if near is not None:
        return near
    cheapest = min(c[0] * c[3] for c in (matching or allowed))
    fewest = min(c[2] for c in (matching or allowed) if c[0] * c[3] == cheapest)
    return next(c for c in (matching or allowed) if (c[0] * c[3], c[2]) == (cheapest, fewest))


cases = st.fixed_dictionaries(
    {
        "configs": st.lists(candidates, min_size=2, max_size=6, unique=True),
        "pruned": st.sets(candidates, max_size=4),
        "entries": st.dictionaries(places, candidates, max_size=4),
        "bans": st.dictionaries(places, st.sets(candidates, min_size=1, max_size=6), max_size=3),
        "pins": st.dictionaries(places, candidates, max_size=2),
        "sizes": st.dictionaries(
            st.sampled_from(("BLOCK_M", "num_warps", "num_stages", "BLOCK_OF_NO_KERNEL")),
            st.sampled_from((2, 4, 32)),
            max_size=2,
        ),
        "on_miss": st.sampled_from(("nearest", "min_cost", "error")),
        "style": st.integers(0, 2),
        "spelling": st.sampled_from((bool, int, float)),
        "reverse": st.booleans(),
        "use": st.lists(st.integers(0, 5), min_size=3, max_size=3),
    }
)


def narrowed(case: dict[str, Any]) -> dict[str, Any]:
    """The case with most entries and bans about its own candidates, which random ones would rarely meet."""
    configs = case["configs"]

    def near(config: Plain) -> Plain:
        return configs[hash(config) % len(configs)] if hash(config) % 4 else config

    return {
        **case,
        "entries": {place: near(config) for place, config in case["entries"].items()},
        "bans": {place: {near(config) for config in banned} for place, banned in case["bans"].items()},
        "pins": {place: near(config) for place, config in case["pins"].items()},
        "pruned": {near(config) for config in case["pruned"]},
    }


def launch_all(case: dict[str, Any], folder: Path, forms: list[int]) -> list[Any]:
    """What real launches of each shape get, in several forms of the call."""
    entries: dict[str, Any] = {}
    for (kernel, shape), config in case["entries"].items():
        entries.setdefault(kernel, {})[key_text(shape, case["style"])] = stored(config, case["spelling"])
    overrides = [
        {"action": action, "kernel": kernel, "key": key_text(shape, 0), "config": stored(config), "reason": "r"}
        for action, listed in (("ban", case["bans"]), ("pin", {p: [c] for p, c in case["pins"].items()}))
        for (kernel, shape), configs in listed.items()
        for config in sorted(configs)
    ]
    table = write_table(folder, entries, extra={"overrides": overrides})
    install(mode="pinned", table_path=table, arch=ARCH, on_miss=case["on_miss"], block_sizes=case["sizes"])
    live = [Config({"BLOCK_M": b, "EVEN": e}, num_warps=w, num_stages=s) for b, e, w, s in case["configs"]]

    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        kept = [c for c, plain in zip(live, case["configs"], strict=True) if plain not in case["pruned"]] or live[:1]
        return kept[::-1] if case["reverse"] else kept

    kernel = autotuner(live, prune_configs_by={"early_config_prune": prune})
    x, y = Tensor(), Tensor()
    got: list[Any] = []
    for shape, form in itertools.product(SHAPES, forms):
        before = len(kernel.fn.launches)
        try:
            if form % 3 == 0:
                kernel[(1,)](x, y, shape)
            elif form % 3 == 1:
                kernel[(1,)](M=shape, y=y, x=x)
            else:
                kernel[(1,)](x, M=True if shape == 1 else shape, y=y)
        except LaunchError:
            assert len(kernel.fn.launches) == before
            got.append(REFUSED)
        else:
            last = kernel.fn.launches[-1]
            got.append((last["BLOCK_M"], last["EVEN"], last["num_warps"], last["num_stages"]))
    assert kernel.timer.calls == 0
    return got


@given(cases)
@settings(
    max_examples=2000,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_launches_get_what_the_documented_rule_says(case: dict[str, Any]) -> None:
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory() as folder:
            plain = narrowed(case)
            expected = [restated(plain, shape) for shape in SHAPES for _ in plain["use"]]
            assert launch_all(plain, Path(folder), plain["use"]) == expected
    finally:
        uninstall()
        logging.disable(logging.NOTSET)


MODULES = ("alpha", "beta", "gamma")
SOURCE = """
from tests.runtime.fakes import autotuner
one, two = autotuner(module=__name__), autotuner(name="second", module=__name__)
"""


def launched_in(folder: Path, order: tuple[str, ...], *, threaded: bool, collect: str) -> dict[str, Any]:
    """BLOCK_M by kernel, after modules were imported and launched in this order."""
    for name in MODULES:
        sys.modules.pop(name, None)
    gc.enable()
    if collect == "off":
        gc.disable()
    dropped = [autotuner(module="dropped") for _ in range(3)]
    dropped[0].me = dropped[0]  # a cycle, so that only the collector frees it
    del dropped
    install(mode="pinned", table_path=folder / f"{ARCH}.json", arch=ARCH)
    modules = {}
    for name in order:
        modules[name] = importlib.import_module(name)
        if collect == "always":
            gc.collect()
        if not threaded:
            launch_module(modules[name])
    if threaded:
        threads = [threading.Thread(target=launch_module, args=(modules[name],)) for name in order]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    return {
        f"{name}.{kernel}": launched(getattr(modules[name], kernel)) for name in MODULES for kernel in ("one", "two")
    }


def launch_module(module: Any) -> None:
    for kernel in (module.one, module.two):
        kernel[(1,)](Tensor(), Tensor(), 16)


def test_choices_do_not_depend_on_imports_threads_or_the_garbage_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    big = {"kwargs": {"BLOCK_M": 128}, "num_warps": 8, "num_stages": Config({}).num_stages}
    middle = {"kwargs": {"BLOCK_M": 64}, "num_warps": 4, "num_stages": Config({}).num_stages}
    write_table(tmp_path, {"kernel": {"*": big}, "beta.kernel": {"*": middle}})
    seen = set()
    try:
        for order in itertools.permutations(MODULES):
            for threaded, collect in itertools.product((False, True), ("on", "off", "always")):
                got = launched_in(tmp_path, order, threaded=threaded, collect=collect)
                assert got == {
                    f"{name}.{kernel}": [32] if kernel == "two" else [64] if name == "beta" else [128]
                    for name in MODULES for kernel in ("one", "two")
                }  # fmt: skip
                seen.add(choice_digest())
                assert {choice.source for choice in choice_log()} == {"table", "min_cost"}
    finally:
        gc.enable()
        for name in MODULES:
            sys.modules.pop(name, None)
    assert len(seen) == 1
