"""A user's kernel while Inductor generates its code: the autotuner that it came from, and the key of its call."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tuning_registry.errors import FormatError
from tuning_registry.model.canonical import DEFAULTS, live_config_text
from tuning_registry.runtime.inductor.notes import KeyField, Note, find_config
from tuning_registry.runtime.pinning.decision import Decision
from tuning_registry.runtime.triton.keys import Call, shape_key, source_hash


class Definition(NamedTuple):
    """A kernel whose code is about to be generated.

    Attributes:
        call: A call of the original autotuner. Tensors are stand-ins that have a dtype; dynamic sizes are those that the
            graph was traced with.
        candidates: The autotuner's config for each config of Inductor; None for one that it does not launch as stated.
        key: The fields of the shape key; None if the call has none.
        is_dynamic: Whether a size in the key is dynamic, and so not known before the launch.
    """

    call: Call
    candidates: list[Any]
    key: tuple[KeyField, ...] | None
    is_dynamic: bool


class _Tensor:
    """Stands for a tensor of the call."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


def define(kernel: Any, configs: Sequence[Any], arguments: Mapping[str, Any]) -> Definition | None:
    """The definition of a kernel; None if its autotuner is not found.

    Args:
        kernel: Triton's JITFunction.
        configs: The candidates that pruning left.
        arguments: Inductor's nodes and values by parameter; parameters that the configs state are absent.
    """
    found = _autotuner_of(kernel, configs)
    if found is None:
        return None
    autotuner, candidates = found
    values: dict[str, Any] = {}
    dynamic: dict[str, int | None] = {}
    for name in autotuner.arg_names:
        if name in arguments:
            values[name], is_dynamic = _value(arguments[name])
            if is_dynamic:
                dynamic[name] = values[name]
    call = Call(autotuner, (), values)
    key = _key_fields(call, dynamic)
    return Definition(call, candidates, key, any(not isinstance(field, str) for field in key or ()))


def _autotuner_of(kernel: Any, configs: Sequence[Any]) -> tuple[Any, list[Any]] | None:
    """The autotuner that a kernel was traced from, and its configs in the order of `configs`.

    Dynamo keeps it, and the autotuners that it has derived from it, which have no keys, in a private table.
    """
    module = sys.modules.get("torch._higher_order_ops.triton_kernel_wrap")
    table = getattr(getattr(module, "kernel_side_table", None), "id_to_kernel", None)
    kernels = list(table.values()) if isinstance(table, dict) else []
    for autotuner in sorted(kernels, key=lambda one: not getattr(one, "keys", ())):
        stated = getattr(autotuner, "configs", None)
        if stated and _innermost(autotuner) is kernel:
            kept = [config for config in stated if _is_launched_as_stated(config)]
            candidates = [find_config(config, kept) for config in configs]
            if any(candidate is not None for candidate in candidates):
                return autotuner, candidates
    return None


def _innermost(kernel: Any) -> Any:
    """The JITFunction under an autotuner and its heuristics."""
    while hasattr(kernel, "configs") or (hasattr(kernel, "fn") and not hasattr(kernel, "params")):
        kernel = kernel.fn
    return kernel


def _is_launched_as_stated(config: Any) -> bool:
    """Whether Inductor's launch of a config has all of its fields: of the launch fields, it keeps warps and stages."""
    return all(getattr(config, name, default) == default for name, default in DEFAULTS.items())


def _value(argument: Any) -> tuple[Any, bool]:
    """The value of an argument in a call, and whether it is dynamic; a dynamic one that is not known is None."""
    kind = type(argument)
    if hasattr(argument, "get_dtype"):
        # In Triton, a descriptor of a tensor has no dtype.
        return (object() if "TMADescriptor" in kind.__name__ else _Tensor(argument.get_dtype())), False
    if not hasattr(argument, "free_symbols"):  # not an expression of SymPy
        return argument, False
    if argument.free_symbols:
        return _hint(argument), True
    return (int(argument) if argument.is_integer else float(argument)), False


def _hint(expression: Any) -> int | None:
    """The value that an expression had when the graph was traced; None if it depends on data."""
    graph = sys.modules["torch._inductor.virtualized"].V.graph
    sizes = graph.sizevars
    evaluate = getattr(sizes, "guarding_hint_or_throw", None) or sizes.size_hint
    try:
        return int(evaluate(expression))
    except Exception:  # noqa: BLE001 - the kind depends on the release
        return None


def _key_fields(call: Call, dynamic: Mapping[str, int | None]) -> tuple[KeyField, ...] | None:
    fields: list[KeyField] = []
    try:
        for name in _known(call.autotuner.keys, call.arguments):
            if name in dynamic:
                fields.append((name, dynamic[name]))
            else:
                fields.append(shape_key([name], {name: call.arguments[name]}))
        dtypes = shape_key([], call.arguments)
    except FormatError:
        return None
    return (*fields, dtypes) if dtypes else tuple(fields)


def _known(keys: Iterable[str], arguments: Mapping[str, Any]) -> list[str]:
    return [name for name in keys if name in arguments]


def unique(candidates: Iterable[Any]) -> list[Any]:
    """Objects in their order, each once and none that is None."""
    return list({id(one): one for one in candidates if one is not None}.values())


def positions(candidates: Sequence[Any], chosen: Sequence[Any]) -> list[int]:
    """The positions of the configs to compile: those of the chosen candidates in their order; all if none is chosen."""
    places = [next(i for i, candidate in enumerate(candidates) if candidate is one) for one in chosen]
    return places or list(range(len(candidates)))


def _texts(configs: Iterable[Any]) -> tuple[str, ...]:
    texts = (live_config_text(config) for config in configs if config is not None)
    return tuple(dict.fromkeys(text for text in texts if text is not None))


def note_of(defined: Definition, kept: Sequence[int], decisions: Sequence[Decision[Any]], is_fused: bool) -> Note:
    """The note of a definition, for the configs that are kept."""
    call = defined.call
    function = getattr(call.autotuner, "base_fn", call.autotuner)
    while hasattr(function, "fn"):
        function = function.fn
    return Note(
        module=str(function.__module__), function=function.__name__, source=source_hash(call.autotuner), key=defined.key,
        declared=_texts(call.autotuner.configs),
        pruned=_texts(defined.candidates) if defined.is_dynamic else (),
        configs=_texts(defined.candidates[i] for i in kept),
        decisions=tuple((None if d.candidate is None else live_config_text(d.candidate), d.source, d.miss, *d.entry)
                        for d in decisions),
        is_fused=is_fused,
    )  # fmt: skip
