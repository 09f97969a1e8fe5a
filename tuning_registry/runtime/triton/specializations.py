"""What Triton needs to compile a kernel as one call does, asked of Triton while that kernel is tuned."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from tuning_registry.model.specializations import Specialization
from tuning_registry.runtime.triton.keys import Call


def specialization_of(call: Call, config: Any) -> Specialization | None:
    """What the kernel that a call launches with a config was compiled from; None if Triton does not say.

    Triton computes it exactly as in a launch: the call is made again as a warm-up, which finds the compiled kernel in
    memory and launches nothing. To be asked right after the config was timed, since hooks of a config may change what
    the arguments are.

    Args:
        call: The call, without the config's options.
        config: A config that this call has just been timed with.
    """
    function = _jit_function(call.autotuner.fn)
    if function is None:
        return None
    passed: list[Mapping[str, Any]] = []
    thread = threading.get_ident()

    def note(*_: Any, **options: Any) -> None:
        if threading.get_ident() == thread:
            passed.append(options)

    function.pre_run_hooks.append(note)
    try:
        kernel = call.autotuner.fn.run(*call.args, **{**call.kwargs, **config.all_kwargs(), "warmup": True})
    finally:
        function.pre_run_hooks.remove(note)
    source, metadata = getattr(kernel, "src", None), getattr(kernel, "metadata", None)
    if source is None or metadata is None or not passed:
        return None
    target = metadata.target
    return Specialization(
        module=str(function.fn.__module__),
        function=str(function.fn.__qualname__),
        target=(target.backend, target.arch, target.warp_size),
        cache_key=str(kernel.hash),
        data=_serialized(function, source, target, passed[-1]),
    )


def _jit_function(function: Any) -> Any:
    """The JITFunction that an autotuner launches, if there is nothing between but heuristics; else None.

    Anything else may launch the kernel although a warm-up was asked for.
    """
    heuristics = import_module("triton.runtime.autotuner").Heuristics
    jit_function = import_module("triton.runtime.jit").JITFunction
    while isinstance(function, heuristics) and type(function).run is heuristics.run:
        function = function.fn
    is_triton = isinstance(function, jit_function) and type(function).run is jit_function.run
    return function if is_triton and "run" not in vars(function) else None


def _serialized(function: Any, source: Any, target: Any, passed: Mapping[str, Any]) -> str:
    """The JSON that `JITFunction.preload` of this Triton takes.

    Of the options, only those that differ from the defaults: among the defaults are paths of this machine.
    """
    backend = import_module("triton.compiler.compiler").make_backend(target)
    defaults = vars(backend.parse_options({}))
    options = {
        name: value
        for name, value in vars(backend.parse_options(dict(passed))).items()
        if name not in defaults or value != defaults[name]
    }
    serialize = import_module("triton.runtime.jit").serialize_specialization_data
    stated = {
        "name": getattr(function, "_fn_name", function.__name__),  # before 3.4 a bare name
        "signature": source.signature,
        "constants": source.constants,
        "attrs": source.attrs,
        "options": SimpleNamespace(**options),
        "key": "",  # of a cache in memory, which only a launch knows
        "target": target,  # since 3.9
    }
    wanted = inspect.signature(serialize).parameters
    return str(serialize(**{name: value for name, value in stated.items() if name in wanted}))
