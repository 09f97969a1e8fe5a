"""The pinned launch: what is decided at a key's first launch is found again by two dict lookups.

Stock `Autotuner.run` builds named arguments, filters them against the signature, spells out every dtype
and reads the environment on each launch. All of that depends only on how a call is written: which types
come at which place, and which names as keywords. So one plan is made per call form, and a launch takes the
key values and dtypes out of the call by position. Nothing shared is written but `best_config`, so threads
may launch the same kernel.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from tuning_registry.runtime.triton.keys import call_arguments

# Where an autotuner keeps its pins, followed by a number of the policy's own, so that no policy finds the pins
# of another; None: left to Triton.
ATTRIBUTE: Final = "_tuning_registry_pins_"

_PLAIN: Final = frozenset({bool, int, float, str, type(None), tuple, list, dict, types.FunctionType, types.LambdaType})
_dtype: Final = attrgetter("dtype")
_nothing: Final = itemgetter(slice(0, 0))  # takes no argument: gives ()

# A candidate and its `all_kwargs()`; (None, {}) leaves the launch to Triton.
Pin = tuple[Any, Mapping[str, Any]]
LEFT_TO_TRITON: Final[Pin] = (None, {})


class Plan:
    """Where the key values and dtypes of one call form stand, and the pins found for it."""

    __slots__ = ("dtypes", "loose", "pinned", "values")

    def __init__(self, keys: Sequence[int], tensors: Sequence[int], loose: Sequence[int]) -> None:
        self.values: Callable[[Any], Any] = itemgetter(*keys) if keys else _nothing
        # itemgetter of one index gives no tuple, hence the index twice.
        self.dtypes: Callable[[Any], Any] = itemgetter(*tensors, tensors[0]) if tensors else _nothing
        self.loose = tuple(loose)
        self.pinned: dict[Any, Pin] = {}


class Pins:
    """The plans of one autotuner, and what they were made for.

    Args:
        autotuner: Its list of candidates and its kernel are noted.
        device: Index of the current device, where devices of several architectures are visible; else None.

    Attributes:
        kept: What whoever decides keeps with the autotuner.
    """

    __slots__ = ("configs", "count", "device", "fn", "kept", "plans")

    def __init__(self, autotuner: Any, device: Callable[[], int] | None) -> None:
        self.configs: Sequence[Any] = autotuner.configs
        self.count = len(self.configs)
        self.fn: Any = autotuner.fn
        self.device = device
        self.plans: dict[Any, Plan] = {}
        self.kept: dict[Any, Any] = {}

    def fit(self, autotuner: Any) -> bool:
        """Whether they are this autotuner's as it is now: a shallow copy takes them along, lists are replaced."""
        configs = autotuner.configs
        return configs is self.configs and len(configs) == self.count and autotuner.fn is self.fn


# Of an autotuner that was never launched here: nothing is found in it.
UNSEEN: Final = Pins(types.SimpleNamespace(configs=(), fn=None), None)


def make_run(
    original: Callable[..., Any],
    decide: Callable[[Any, tuple[Any, ...], dict[str, Any]], Pin],
    attribute: str,
) -> Callable[..., Any]:
    """A replacement for `Autotuner.run`.

    Args:
        original: Triton's own.
        decide: Called at the first launch of a key, with the autotuner and the call; gives the pin and
            stores it where the next launch finds it.
        attribute: Name under which autotuners keep their pins.
    """

    def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        pins = getattr(self, attribute, UNSEEN)
        if pins is None:
            return original(self, *args, **kwargs)
        fn, configs = self.fn, self.configs
        # Only the lookup stands in the try: what the kernel raises is the caller's.
        try:
            values = (*args, *kwargs.values())
            plan = pins.plans[(*map(type, values), *kwargs)]
            shape = (plan.values(values), *map(_dtype, plan.dtypes(values)))
            if plan.loose or pins.device is not None:
                shape = _full_shape(pins, plan, values, shape)
            config, options = plan.pinned[shape]
            is_known = configs is pins.configs and len(configs) == pins.count and fn is pins.fn
        except (AttributeError, KeyError, TypeError):
            is_known = False
        if not is_known:
            config, options = decide(self, args, kwargs)
        if config is None:
            return original(self, *args, **kwargs)
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**dict(zip(self.arg_names, args, strict=False)), **kwargs, **config.all_kwargs()})
            options = config.all_kwargs()  # read again, as Triton does: the hook may have changed its config
        return fn.run(*args, **kwargs, **options)

    return run


def remember(pins: Pins, autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], pin: Pin) -> Pin:
    """Store a pin where `run` finds it for calls of the same form, key values and dtypes.

    Gives the pin that stands: of threads that decide a key at once, the first to store has decided.
    """
    values = (*args, *kwargs.values())
    form = (*map(type, values), *kwargs)
    plan = pins.plans.get(form) or make_plan(autotuner, args, kwargs, single=pins.count == 1)
    shape = _full_shape(pins, plan, values, (plan.values(values), *map(_dtype, plan.dtypes(values))))
    # Published last: a plan that cannot read its own call must not meet a launch.
    return pins.plans.setdefault(form, plan).pinned.setdefault(shape, pin)


def make_plan(autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], single: bool = False) -> Plan:
    """The plan for calls of this form.

    Args:
        autotuner: Gives the argument names and `keys`.
        args: As passed.
        kwargs: As passed.
        single: There is one candidate: nothing of the call matters.
    """
    if single:
        return Plan((), (), ())
    place = {**{name: i for i, name in enumerate(autotuner.arg_names[: len(args)])},
             **{name: len(args) + i for i, name in enumerate(kwargs)}}  # fmt: skip
    arguments = call_arguments(autotuner.arg_names, args, kwargs)
    keys = [place[name] for name in autotuner.keys if name in arguments]
    tensors = [place[name] for name, value in arguments.items()
               if type(value) not in _PLAIN and hasattr(value, "dtype")]  # fmt: skip
    loose = [place[name] for name, value in arguments.items() if place[name] not in tensors and _may_have_dtype(value)]
    return Plan(keys, tensors, loose)


def _may_have_dtype(value: object) -> bool:
    """Whether another value of this type, which has no `dtype` now, might have one."""
    kind = type(value)
    return kind not in _PLAIN and (kind.__dictoffset__ != 0 or hasattr(kind, "__getattr__"))


def _full_shape(pins: Pins, plan: Plan, values: tuple[Any, ...], shape: tuple[Any, ...]) -> tuple[Any, ...]:
    if plan.loose:
        shape = (shape, *(getattr(values[i], "dtype", None) for i in plan.loose))
    return shape if pins.device is None else (pins.device(), shape)
