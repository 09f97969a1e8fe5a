"""Asking an autotuner's own pruning what it leaves, beside launches of other threads."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

PROBE: Final = "_tuning_registry_probe"  # marks an autotuner that is asked for its pruning, and not tuned


def ask_pruning(autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The candidates that the kernel's pruning leaves for a call.

    Triton's pruning reads `nargs` of the autotuner, which threads share, so a copy is asked; what the pruning of a
    subclass keeps in it is put back. Where a copy cannot stand for it (its pruner is one of its methods, its class
    ends objects its own way, the pruning fails in a copy) the autotuner itself is asked, as Triton does.

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
        except Exception:  # noqa: BLE001, S110 - a user's pruning: what it raises without us is raised below
            pass
        else:
            _put_back(autotuner, probe, before, slots)
            return pruned
    return _ask_itself(autotuner, nargs, kwargs)


def _ask_itself(autotuner: Any, nargs: dict[str, Any], kwargs: dict[str, Any]) -> list[Any]:
    state = vars(autotuner)
    state["nargs"], state[PROBE] = nargs, True
    try:
        return list(autotuner.prune_configs(kwargs))
    finally:
        state["nargs"] = None  # as after a launch of Triton's
        state.pop(PROBE, None)


def _filled_slots(autotuner: Any) -> Iterator[tuple[Any, Any]]:
    """The `__slots__` of its class and their values."""
    for kind in type(autotuner).__mro__:
        for member in vars(kind).values():
            if inspect.ismemberdescriptor(member):
                try:
                    value = member.__get__(autotuner)
                except AttributeError:
                    continue
                yield member, value


def _put_back(autotuner: Any, probe: Any, before: dict[str, Any], slots: dict[Any, Any]) -> None:
    """Give the autotuner what pruning has set in its copy."""
    missing = object()
    for name, value in vars(probe).items():
        if name not in {"nargs", PROBE} and before.get(name, missing) is not value:
            vars(autotuner)[name] = value
    for member, value in _filled_slots(probe):
        if slots.get(member, missing) is not value:
            member.__set__(autotuner, value)
