"""Puts our functions into Inductor, as soon as a job imports it, and takes them out again.

A job that does not compile never imports Inductor, and pays one dict lookup per import of a module.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol

from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.inductor.imports import ImportWatch
from tuning_registry.runtime.inductor.notes import FIELD
from tuning_registry.runtime.triton.patches import Patches


class Seam(NamedTuple):
    """A function of Inductor that is replaced.

    Attributes:
        module: The module, below `torch._inductor`.
        owner: The class.
        name: The function.
        takes: Its first parameters, after `self`; of none, any parameters will do.
        is_of_class: Whether it is called on the class, and has no `self`.
    """

    module: str
    owner: str
    name: str
    takes: tuple[str, ...] = ()
    is_of_class: bool = False

    def __str__(self) -> str:
        """The function's name in its class."""
        return f"{self.owner}.{self.name}"


# In torch 2.6 to 2.15 without a change in what is used here; `tests/runtime/inductor/test_sources.py` reads them.
KEY: Final = Seam("codecache", "FxGraphHashDetails", "__init__", ("gm",))
DEFINE: Final = Seam(
    "codegen.wrapper", "PythonWrapperCodegen", "define_user_defined_triton_kernel", ("kernel", "configs", "kwargs")
)
META: Final = Seam("codegen.triton", "TritonKernel", "inductor_meta_common", is_of_class=True)
LOAD: Final = Seam("runtime.triton_heuristics", "CachingAutotuner", "precompile", ("warm_cache_only",))
CHOOSE: Final = Seam("runtime.triton_heuristics", "CachingAutotuner", "autotune_to_one_config")
TIME: Final = Seam("runtime.triton_heuristics", "CachingAutotuner", "benchmark_all_configs")
DESCEND: Final = Seam("runtime.triton_heuristics", "CachingAutotuner", "coordinate_descent_tuning", ("launcher",))
SELECT: Final = Seam("codecache", "PersistentCache", "lookup", ("choices", "op", "inputs", "benchmark"))
SEAMS: Final = (KEY, DEFINE, META, LOAD, CHOOSE, TIME, DESCEND, SELECT)
# Without one of these, generated code cannot carry our note: kernels are then neither named nor pinned.
_OF_NOTES: Final = frozenset({KEY, DEFINE, META, LOAD})


class Plan(NamedTuple):
    """What becomes of a user's kernel in generated code.

    Attributes:
        note: The note for its code, as a literal; None for none.
        kept: Positions of the configs that are compiled.
    """

    note: Mapping[str, Any]
    kept: Sequence[int]


class Handler(Protocol):
    """The installed policy, as the functions inside Inductor see it (`launches.CompiledLaunches`)."""

    def settle(self) -> None:
        """Settle the mode of the policy, if it is still open; another handler may follow."""

    def cache_tag(self, details: Any) -> str:
        """What the key of Inductor's caches has to hold in addition; empty for nothing."""

    def plan(self, kernel: Any, configs: Sequence[Any], arguments: Mapping[str, Any], *, is_fused: bool) -> Plan | None:
        """What becomes of a user's kernel whose code is about to be generated; None leaves it as it is."""

    def loaded(self, autotuner: Any, *, was_cached: bool) -> None:
        """The candidates of a kernel are compiled, and can be launched."""

    def choose(self, autotuner: Any) -> None:
        """Inductor is about to time the candidates of a kernel."""

    def timed(self, autotuner: Any, args: tuple[Any, ...], timings: Mapping[Any, float]) -> None:
        """Inductor has timed the candidates of a kernel."""

    def chosen(self, autotuner: Any, launcher: Any) -> None:
        """Inductor has chosen a candidate of one of its own kernels."""

    def selected(self, operation: str, inputs: str, timings: Mapping[Any, float], *, was_cached: bool) -> None:
        """Inductor has chosen between templates and library functions for an operation."""

    def missing(self, seam: Seam) -> None:
        """This torch does not have a function that is replaced."""


class Seams:
    """Our functions inside Inductor, for one handler at a time; they pass calls on while there is none."""

    def __init__(self) -> None:
        self._handler: Handler | None = None
        self._patches: dict[Seam, Patches] = {}
        self._absent: set[Seam] = set()
        self._local = threading.local()  # holds the note of the kernel whose code a thread generates
        self._imports = ImportWatch({_full_name(seam.module): self._fill for seam in SEAMS})

    def watch(self, handler: Handler) -> None:
        """Let `handler` see what Inductor does, from now on or from its import on."""
        self._handler = handler
        for seam in self._absent:
            handler.missing(seam)
        self._imports.start()

    def unwatch(self) -> None:
        """Give Inductor its functions back."""
        self._handler = None
        self._imports.stop()
        for patches in self._patches.values():
            patches.take_out()
        self._patches.clear()

    def _fill(self, module: ModuleType) -> None:
        """Put our functions into a module that was imported."""
        for seam in SEAMS:
            if _full_name(seam.module) == module.__name__ and seam not in self._patches:
                owner = getattr(module, seam.owner, None)
                if not _fits(owner, seam):
                    self._absent.add(seam)
                    if self._handler is not None:
                        self._handler.missing(seam)
                    continue
                patches = self._patches[seam] = Patches(owner)
                patches.put_in(seam.name, _MAKERS[seam].__get__(self))

    def _settled(self) -> Handler | None:
        """The handler, once the mode of its policy is settled."""
        if self._handler is not None:
            guarded("choosing the mode", self._handler.settle)
        return self._handler

    def _make_key(self, original: Any) -> Any:
        def __init__(details: Any, /, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - of their class
            original(details, *args, **kwargs)
            handler = self._settled()
            tag = guarded("marking Inductor's cache key", handler.cache_tag, details) if handler is not None else ""
            if tag:
                tag = guarded("marking Inductor's cache key", _mark, details, tag)
            self._local.is_untagged = tag is None

        return __init__

    def _make_define(self, original: Any) -> Any:
        def define_user_defined_triton_kernel(
            wrapper: Any, /, kernel: Any, configs: Any, kwargs: Any, *args: Any, **others: Any
        ) -> Any:
            handler = self._settled()
            is_untagged = getattr(self._local, "is_untagged", False)
            if handler is None or is_untagged or not self._patches.keys() >= _OF_NOTES:
                return original(wrapper, kernel, configs, kwargs, *args, **others)

            def planned() -> tuple[Any, ...] | None:
                is_fused = (others.get("epilogue_fusion") or (args[3] if len(args) > 3 else None)) is not None
                plan = handler.plan(kernel, configs, kwargs, is_fused=is_fused)
                kept = None if plan is None else [configs[i] for i in plan.kept]
                return None if plan is None else (plan.note, kept, *_narrowed(args, others, len(configs), plan.kept))

            found = guarded("planning a compiled kernel", planned)
            if found is None:
                return original(wrapper, kernel, configs, kwargs, *args, **others)
            self._local.note, kept, its, named = found
            try:
                return original(wrapper, kernel, kept, kwargs, *its, **named)
            finally:
                self._local.note = None

        return define_user_defined_triton_kernel

    def _make_meta(self, original: Any) -> Any:
        def inductor_meta_common(owner: Any, *args: Any, **kwargs: Any) -> Any:
            meta = original.__get__(None, owner)(*args, **kwargs)
            note = getattr(self._local, "note", None)
            noted = None if note is None else guarded("describing a compiled kernel", lambda: {**meta, FIELD: note})
            return meta if noted is None else noted

        return classmethod(inductor_meta_common)

    def _make_load(self, original: Any) -> Any:
        def precompile(autotuner: Any, /, warm_cache_only: bool = False, *args: Any, **kwargs: Any) -> Any:
            handler = self._handler
            if handler is None or warm_cache_only:
                return original(autotuner, warm_cache_only, *args, **kwargs)
            was_cached = bool(guarded("reading Inductor's cache", _was_cached, autotuner))
            result = original(autotuner, warm_cache_only, *args, **kwargs)
            guarded("noting a compiled kernel", handler.loaded, autotuner, was_cached=was_cached)
            return result

        return precompile

    def _make_choose(self, original: Any) -> Any:
        def autotune_to_one_config(autotuner: Any, /, *args: Any, **kwargs: Any) -> Any:
            handler = self._handler
            if handler is not None:
                guarded("looking at a compiled kernel", handler.choose, autotuner)
            result = original(autotuner, *args, **kwargs)
            if handler is not None:
                guarded("noting a choice of Inductor", lambda: handler.chosen(autotuner, autotuner.launchers[0]))
            return result

        return autotune_to_one_config

    def _make_time(self, original: Any) -> Any:
        def benchmark_all_configs(autotuner: Any, /, *args: Any, **kwargs: Any) -> Any:
            timings = original(autotuner, *args, **kwargs)
            handler = self._handler
            if handler is not None:
                guarded("recording a tuning of Inductor", handler.timed, autotuner, args, timings)
            return timings

        return benchmark_all_configs

    def _make_descend(self, original: Any) -> Any:
        def coordinate_descent_tuning(autotuner: Any, /, launcher: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(autotuner, launcher, *args, **kwargs)
            handler = self._handler
            if handler is not None and found is not launcher:
                guarded("noting a choice of Inductor", handler.chosen, autotuner, found)
            return found

        return coordinate_descent_tuning

    def _make_select(self, original: Any) -> Any:
        def lookup(cache: Any, /, choices: Any, op: Any, inputs: Any, benchmark: Any, *args: Any, **kwargs: Any) -> Any:
            handler = self._handler
            if handler is None or benchmark is None:
                return original(cache, choices, op, inputs, benchmark, *args, **kwargs)
            calls: list[bool] = []

            def counting(*its: Any, **named: Any) -> Any:
                calls.append(True)
                return benchmark(*its, **named)

            timings = original(cache, choices, op, inputs, counting, *args, **kwargs)
            guarded("noting a choice of Inductor", handler.selected, op, inputs, timings, was_cached=not calls)
            return timings

        return lookup


_MAKERS: Final[Mapping[Seam, Any]] = {
    KEY: Seams._make_key,  # noqa: SLF001
    DEFINE: Seams._make_define,  # noqa: SLF001
    META: Seams._make_meta,  # noqa: SLF001
    LOAD: Seams._make_load,  # noqa: SLF001
    CHOOSE: Seams._make_choose,  # noqa: SLF001
    TIME: Seams._make_time,  # noqa: SLF001
    DESCEND: Seams._make_descend,  # noqa: SLF001
    SELECT: Seams._make_select,  # noqa: SLF001
}


def _full_name(module: str) -> str:
    return f"torch._inductor.{module}"


def _fits(owner: Any, seam: Seam) -> bool:
    """Whether a class has the function of a seam, with the parameters that ours passes on."""
    function = vars(owner).get(seam.name) if isinstance(owner, type) else None
    if isinstance(function, staticmethod | classmethod) is not seam.is_of_class:
        return False
    try:
        parameters = list(inspect.signature(getattr(function, "__func__", function)).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # it is missing, or not a function
        return False
    return tuple(parameters[1 : 1 + len(seam.takes)]) == seam.takes


def _mark(details: Any, tag: str) -> str:
    """Add a tag to what becomes the key of Inductor's caches."""
    details.cache_key_tag = f"{getattr(details, 'cache_key_tag', '')}|{FIELD}:{tag}"
    return tag


def _narrowed(
    args: tuple[Any, ...], others: dict[str, Any], count: int, kept: Sequence[int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments after `kwargs`, with the grids of the configs that are kept; one grid may serve all configs."""

    def of_kept(grids: Any) -> Any:
        return [grids[i] for i in kept] if isinstance(grids, list) and len(grids) == count else grids

    if "grids" in others:
        others = {**others, "grids": of_kept(others["grids"])}
    elif len(args) > 2:  # in torch 2.6, the grids are not passed
        args = (*args[:2], of_kept(args[2]), *args[3:])
    return args, others


def _was_cached(autotuner: Any) -> bool:
    """Whether Inductor has read the config of a kernel from its cache of winners."""
    info = getattr(autotuner, "autotune_cache_info", None) or {}
    if "autotune_cache_state" in info:
        return bool(info["autotune_cache_state"] == "hit")
    return len(getattr(autotuner, "configs", None) or ()) == 1
