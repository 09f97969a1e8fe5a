"""Running an autotuner's own pruning while other threads may launch it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

PROBE: Final = "_tuning_registry_probe"  # marks an autotuner that prunes for us, and is not being tuned


def prunes_its_own_way(autotuner: Any) -> bool:
    """Whether the class of an autotuner, or the autotuner itself, replaces Triton's `prune_configs`."""
    if "prune_configs" in getattr(autotuner, "__dict__", ()):
        return True
    owner = next((kind for kind in type(autotuner).__mro__ if "prune_configs" in vars(kind)), None)
    return owner is not None and owner.__module__ != "triton.runtime.autotuner"


def ask_pruning(autotuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The candidates that the kernel's pruning leaves for a call.

    Triton's pruning reads the autotuner's `nargs`, which threads share, so a copy prunes; whatever the pruning of a
    subclass stores in the copy is copied back. If a copy cannot do it (the pruner is a method of the autotuner, its
    class defines `__del__`, or pruning fails in the copy), the autotuner itself prunes, as in Triton.

    Args:
        autotuner: With more than one candidate.
        args: As passed.
        kwargs: As passed.
    """
    nargs = dict(zip(autotuner.arg_names, args, strict=False))
    before = dict(vars(autotuner))
    is_bound_to_it = any(getattr(value, "__self__", None) is autotuner for value in before.values())
    if not is_bound_to_it and not hasattr(type(autotuner), "__del__"):
        try:
            slots = dict(_filled_slots(autotuner))
            probe = object.__new__(type(autotuner))
            vars(probe).update(before, nargs=nargs, **{PROBE: True})
            for member, value in slots.items():
                member.__set__(probe, value)
            pruned = list(probe.prune_configs(kwargs))
        except Exception as error:  # the copy's own trouble: ask the autotuner itself; a pruner's error is raised again
            if _is_of_pruner(error, before):
                raise
        else:
            _put_back(autotuner, probe, before, slots)
            return pruned
    return _ask_itself(autotuner, nargs, kwargs)


def _is_of_pruner(error: BaseException, state: dict[str, Any]) -> bool:
    """Whether an error comes out of the user's own pruner or performance model, which then must not be called again."""
    pruners = [state.get("early_config_prune"), state.get("perf_model")]
    functions = [getattr(pruner, "func", pruner) for pruner in pruners]  # of functools.partial
    codes = {getattr(f, "__code__", getattr(vars(type(f)).get("__call__"), "__code__", None)) for f in functions}
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code in codes:
            return True
        frame = frame.tb_next
    return False


def _ask_itself(autotuner: Any, nargs: dict[str, Any], kwargs: Mapping[str, Any]) -> list[Any]:
    state = vars(autotuner)
    state["nargs"], state[PROBE] = nargs, True
    try:
        return list(autotuner.prune_configs(kwargs))
    finally:
        state["nargs"] = None  # as Triton leaves it after a launch
        state.pop(PROBE, None)


def _filled_slots(autotuner: Any) -> Iterator[tuple[Any, Any]]:
    """The `__slots__` of its class that have a value, and their values."""
    for kind in type(autotuner).__mro__:
        for member in vars(kind).values():
            if inspect.ismemberdescriptor(member):
                try:
                    value = member.__get__(autotuner)
                except AttributeError:
                    continue
                yield member, value


def _put_back(autotuner: Any, probe: Any, before: dict[str, Any], slots: dict[Any, Any]) -> None:
    """Copy back what pruning has stored in the copy."""
    missing = object()
    for name, value in vars(probe).items():
        if name not in {"nargs", PROBE} and before.get(name, missing) is not value:
            vars(autotuner)[name] = value
    for member, value in _filled_slots(probe):
        if slots.get(member, missing) is not value:
            member.__set__(autotuner, value)
