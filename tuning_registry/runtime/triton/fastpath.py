"""The pinned launch: two dict lookups find the decision that was made at a key's first launch.

On each launch, Triton's own `Autotuner.run` builds named arguments, filters them against the signature,
formats every dtype and reads the environment. All of that depends only on the form of a call: which types
are at which position, and which names are keywords. So there is one plan per call form, and a launch takes
the key values and dtypes from the call by position. Only `best_config` is shared and written, so threads
may launch the same kernel.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from tuning_registry.runtime.triton.keys import Call

# The attribute of an autotuner that holds its pins (None: left to Triton). A number that each policy has for itself
# follows, so that no policy finds the pins of another.
ATTRIBUTE: Final = "_tuning_registry_pins_"

_PLAIN: Final = frozenset({bool, int, float, str, type(None), tuple, list, dict, types.FunctionType, types.LambdaType})
_dtype: Final = attrgetter("dtype")
_nothing: Final = itemgetter(slice(0, 0))  # takes no argument: gives ()

# A candidate and its `all_kwargs()`; (None, {}) leaves the launch to Triton.
Pin = tuple[Any, Mapping[str, Any]]
LEFT_TO_TRITON: Final[Pin] = (None, {})


class Plan:
    """The positions of key values and dtypes in one call form, and the pins decided for it."""

    __slots__ = ("dtypes", "loose", "pinned", "values")

    def __init__(self, keys: Sequence[int], tensors: Sequence[int], loose: Sequence[int]) -> None:
        self.values: Callable[[Any], Any] = itemgetter(*keys) if keys else _nothing
        # itemgetter returns a tuple only for two or more indices, so the first one is repeated.
        self.dtypes: Callable[[Any], Any] = itemgetter(*tensors, tensors[0]) if tensors else _nothing
        self.loose = tuple(loose)
        self.pinned: dict[Any, Pin] = {}


class Pins:
    """The plans of one autotuner, and the candidates and kernel that they were made for.

    Args:
        autotuner: The autotuner.
        device: Returns the current device's index if devices of several architectures are visible; else None.

    Attributes:
        kept: Decisions that the handler keeps with the autotuner.
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
        """Whether they still fit the autotuner: a shallow copy shares them, and lists of candidates get replaced."""
        configs = autotuner.configs
        return configs is self.configs and len(configs) == self.count and autotuner.fn is self.fn


# The pins of an autotuner that was never launched: no lookup succeeds.
UNSEEN: Final = Pins(types.SimpleNamespace(configs=(), fn=None), None)


def make_run(
    original: Callable[..., Any],
    begin: Callable[..., Any],
    attribute: str,
    check_hook: Callable[[Call, Any], None],
    only: type | None = None,
) -> Callable[..., Any]:
    """A replacement for `Autotuner.run`, or for that of a subclass.

    Args:
        original: Triton's own function.
        begin: Called with `original`, autotuner, args and kwargs at the first launch of a key; decides, launches, and
            stores the pin for the next launch.
        attribute: Name of the attribute that holds an autotuner's pins.
        check_hook: Called with call and config if the hook of a config has changed it.
        only: The only class whose launches may find a pin here; None for all.
    """

    def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        pins = getattr(self, attribute, UNSEEN)
        if pins is None or (only is not None and type(self) is not only):
            return original(self, *args, **kwargs)
        fn, configs = self.fn, self.configs
        # Only the lookup is inside the try: an exception of the kernel belongs to the caller.
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
            return begin(original, self, args, kwargs)
        if config is None:
            return original(self, *args, **kwargs)
        self.best_config = config
        if config.pre_hook is not None:
            before, options = options, run_hook(self, config, args, kwargs)
            if not is_same(options, before):
                check_hook(Call(self, args, kwargs), config)
        return fn.run(*args, **kwargs, **options)

    return run


def run_hook(autotuner: Any, config: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run the hook of a config. Returns its options, read again as Triton does, because the hook may change its config."""
    named = dict(zip(autotuner.arg_names, args, strict=False))
    config.pre_hook({**named, **kwargs, **config.all_kwargs()})
    options: Mapping[str, Any] = config.all_kwargs()
    return options


def is_same(options: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether two launches get the same options; options that cannot be compared count as changed."""
    try:
        return bool(options == others)
    except Exception:  # noqa: BLE001 - a user's value may compare in any way
        return False


def remember(pins: Pins, call: Call, pin: Pin) -> Pin:
    """Store a pin where `run` finds it for calls of the same form, key values and dtypes.

    Returns the pin that is stored: if threads decide a key at the same time, the first one to store it wins.
    """
    values = (*call.args, *call.kwargs.values())
    form = (*map(type, values), *call.kwargs)
    plan = pins.plans.get(form) or make_plan(call, single=pins.count == 1)
    shape = _full_shape(pins, plan, values, (plan.values(values), *map(_dtype, plan.dtypes(values))))
    # Published last: no launch may find a plan that cannot read its own call.
    return pins.plans.setdefault(form, plan).pinned.setdefault(shape, pin)


def make_plan(call: Call, single: bool = False) -> Plan:
    """The plan for calls of this form.

    Args:
        call: A call of the form.
        single: There is only one candidate, so no argument matters.
    """
    if single:
        return Plan((), (), ())
    count, arguments = len(call.args), call.arguments
    place = {**{name: i for i, name in enumerate(call.autotuner.arg_names[:count])},
             **{name: count + i for i, name in enumerate(call.kwargs)}}  # fmt: skip
    keys = [place[name] for name in call.autotuner.keys if name in arguments]
    tensors = [place[name] for name, value in arguments.items()
               if type(value) not in _PLAIN and hasattr(value, "dtype")]  # fmt: skip
    loose = [place[name] for name, value in arguments.items() if place[name] not in tensors and _may_have_dtype(value)]
    return Plan(keys, tensors, loose)


def _may_have_dtype(value: object) -> bool:
    """Whether another value of this type might have a `dtype`, although this one has none."""
    kind = type(value)
    return kind not in _PLAIN and (kind.__dictoffset__ != 0 or hasattr(kind, "__getattr__"))


def _full_shape(pins: Pins, plan: Plan, values: tuple[Any, ...], shape: tuple[Any, ...]) -> tuple[Any, ...]:
    if plan.loose:
        shape = (shape, *(getattr(values[i], "dtype", None) for i in plan.loose))
    return shape if pins.device is None else (pins.device(), shape)
