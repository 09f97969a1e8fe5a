"""The only file that touches Triton: puts our functions into `Autotuner` and takes them out again."""

from __future__ import annotations

import importlib.util
import sys
import threading
import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from tuning_registry.errors import LaunchError, PolicyError
from tuning_registry.runtime.coverage import live_autotuners, unseen_kernels
from tuning_registry.runtime.fastpath import ATTRIBUTE, LEFT_TO_TRITON, Pin, Pins, make_run, remember
from tuning_registry.runtime.guard import guarded, warn_once
from tuning_registry.runtime.keys import kernel_name
from tuning_registry.runtime.watch import Tuning, Watch


class Handler(Protocol):
    """What the adapter asks of the rest of the runtime."""

    def is_pinned(self, autotuner: Any) -> bool:
        """Whether the kernel is in scope of pinning; notes that it was reached."""

    def pin(self, autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], pruned: list[Any]) -> tuple[Any, bool]:
        """The candidate to launch (None: Triton's to choose) and whether equal calls get the same.

        Raises:
            LaunchError: The policy forbids the launch.
        """

    def tuned(self, tuning: Tuning) -> None:
        """Triton has chosen."""

    def escaped(self, autotuner: Any) -> None:
        """Triton times a kernel, and nothing will say which candidate it took."""

    def device_index(self) -> Callable[[], int] | None:
        """Gives the current device's index where devices of several architectures are visible, else None."""


class Adapter:
    """Our functions inside `triton.runtime.autotuner.Autotuner`, for one handler.

    Patching the class covers autotuners made before and after, and subclasses as long as they call
    `super()`; only the functions that a mode needs are replaced.

    Args:
        handler: Decides and is told.
        pins: Whether launches are pinned (`run` is replaced) or only watched.
    """

    def __init__(self, handler: Handler, pins: bool) -> None:
        self._class: Any = import_module("triton.runtime.autotuner").Autotuner
        self._handler = handler
        self._pins = pins
        self._knob = _listener_knob()
        self._watch = Watch(self._on_tuned, self._is_listening)
        self._originals: dict[str, Any] = {}
        self._ours: dict[str, Any] = {}
        self._listener = self._on_listen  # one object: a bound method is a new one at each access
        self._previous_listener: Any = None
        self._lock = threading.RLock()
        self._touched: weakref.WeakSet[Any] = weakref.WeakSet()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._attached = False

    def attach(self) -> None:
        """Put our functions in."""
        self._attached = True
        if self._pins:
            self._replace("run", lambda original: make_run(original, self._decide))
        self._replace("prune_configs", self._make_prune)
        self._replace("_bench", self._make_bench)
        if hasattr(self._class, "check_disk_cache"):
            self._replace("check_disk_cache", self._make_check)

    def detach(self) -> None:
        """Take our functions out; the original objects are back and no autotuner keeps a pin."""
        self._attached = False
        for name, original in self._originals.items():
            if self._class.__dict__.get(name) is self._ours[name]:
                setattr(self._class, name, original)
            else:
                warn_once(("foreign patch", name), "Autotuner.%s was patched by another tool after install; its patch "
                          "stays and ours, under it, now only passes calls on", name)  # fmt: skip
        self._listen(wanted=False)
        with self._lock:
            for autotuner in list(self._touched):
                autotuner.__dict__.pop(ATTRIBUTE, None)

    def unseen(self) -> list[tuple[str, str]]:
        """Live autotuners that were not met at any launch, and why (see `coverage.unseen_kernels`)."""
        return unseen_kernels(self._class, lambda autotuner: autotuner in self._seen)

    def _replace(self, name: str, make: Callable[[Any], Any]) -> None:
        original = self._class.__dict__[name]
        self._originals[name] = original
        self._ours[name] = make(original)
        self._ours[name].__name__ = name
        self._ours[name].__doc__ = original.__doc__
        setattr(self._class, name, self._ours[name])

    def _decide(self, autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pin:
        """The pin of a key seen for the first time. One thread at a time: pruning reads the shared `nargs`."""
        with self._lock:
            if not self._attached:
                return LEFT_TO_TRITON
            self._seen.add(autotuner)
            configs = autotuner.configs
            if not guarded("looking at a kernel", self._handler.is_pinned, autotuner):
                self._keep(autotuner, None)
                return LEFT_TO_TRITON
            pruned = list(configs) if len(configs) == 1 else self._prune(autotuner, args, kwargs)
            if not pruned:
                return LEFT_TO_TRITON  # Triton raises its own error for it
            answer = guarded("pinning a kernel", self._handler.pin, autotuner, args, kwargs, pruned)
            if answer is None:
                return LEFT_TO_TRITON
            candidate, lasts = answer
            pin = LEFT_TO_TRITON if candidate is None else (candidate, candidate.all_kwargs())
            if lasts:
                guarded("keeping a pin", self._remember, autotuner, args, kwargs, pin)
            return pin

    def _remember(self, autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], pin: Pin) -> None:
        pins = autotuner.__dict__.get(ATTRIBUTE)
        if pins is None or pins.configs is not autotuner.configs or pins.count != len(autotuner.configs):
            pins = Pins(autotuner.configs, self._handler.device_index())
        remember(pins, autotuner, args, kwargs, pin)
        self._keep(autotuner, pins)

    def _keep(self, autotuner: Any, pins: Pins | None) -> None:
        setattr(autotuner, ATTRIBUTE, pins)
        self._touched.add(autotuner)

    def _prune(self, autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """What the kernel's own pruning leaves; `nargs` is as it was afterwards, also after its errors."""
        before = getattr(autotuner, "nargs", None)
        autotuner.nargs = dict(zip(autotuner.arg_names, args, strict=False))
        try:
            with self._watch.silence():
                return list(autotuner.prune_configs(kwargs))
        finally:
            autotuner.nargs = before

    def _make_prune(self, original: Any) -> Any:
        def prune_configs(autotuner: Any, kwargs: dict[str, Any]) -> Any:
            pruned = original(autotuner, kwargs)
            if self._attached:
                guarded("watching a tuning", self._on_prune, autotuner, kwargs, pruned)
            return pruned

        return prune_configs

    def _on_prune(self, autotuner: Any, kwargs: dict[str, Any], pruned: Any) -> None:
        self._seen.add(autotuner)
        self._listen(wanted=_has_jit_function(autotuner))
        self._watch.pruned(autotuner, kwargs, pruned)

    def _on_timed(self, autotuner: Any, args: tuple[Any, ...], meta: dict[str, Any], config: Any, timing: Any) -> None:
        if not self._watch.is_open(autotuner):
            # Its class prunes its own way, so our pruning was not called.
            self._seen.add(autotuner)
            self._listen(wanted=_has_jit_function(autotuner))
            if not self._is_listening():
                self._handler.escaped(autotuner)
        self._watch.timed(autotuner, args, meta, config, timing)

    def _on_tuned(self, tuning: Tuning) -> None:
        self._listen(wanted=False)
        self._handler.tuned(tuning)

    def _make_bench(self, original: Any) -> Any:
        def _bench(autotuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
            if not self._attached:
                return original(autotuner, *args, config=config, **meta)
            if guarded("asking for a graph capture", is_capturing):
                raise LaunchError(
                    f"{kernel_name(autotuner)} would be timed inside a CUDA-graph capture, which the timing would "
                    f"break; warm up or pin this key first (keys: {_shown_keys(autotuner, args, meta)})"
                )
            timing = original(autotuner, *args, config=config, **meta)
            guarded("watching a tuning", self._on_timed, autotuner, args, meta, config, timing)
            return timing

        return _bench

    def _make_check(self, original: Any) -> Any:
        def check_disk_cache(autotuner: Any, tuning_key: Any, configs: Any, bench_fn: Any) -> Any:
            hit = original(autotuner, tuning_key, configs, bench_fn)
            if hit and self._attached:
                guarded("watching a tuning", lambda: self._watch.echoed(autotuner, autotuner.cache[tuning_key]))
            return hit

        return check_disk_cache

    def _listen(self, *, wanted: bool) -> None:
        """Be Triton's listener while a kernel is tuned, and only then.

        With any listener set, Triton looks for a JITFunction under the autotuner and fails where there is
        none, as in its interpreter. Another tool's listener is called by ours and is back afterwards.
        """
        if self._knob is None or wanted == self._is_listening():
            return
        if wanted:
            self._previous_listener = self._knob.listener
        self._knob.listener = self._listener if wanted else self._previous_listener

    def _is_listening(self) -> bool:
        return self._knob is not None and self._knob.listener is self._listener

    def _on_listen(self, **event: Any) -> None:
        if self._attached:
            guarded("watching a tuning", self._watch.listened, event["fn"], event["best_config"],
                    event["configs_timings"], event["cache_hit"])  # fmt: skip
        if self._previous_listener is not None:
            self._previous_listener(**event)


def is_installed() -> bool:
    """Whether Triton can be imported here; it is not imported."""
    return "triton" in sys.modules or importlib.util.find_spec("triton") is not None


def check_supported() -> None:
    """Import Triton's autotuner.

    Raises:
        PolicyError: There is none, or it is not one of the supported releases.
    """
    try:
        autotuner = import_module("triton.runtime.autotuner").Autotuner
    except ImportError as error:
        raise PolicyError(f"this policy needs Triton, which cannot be imported here: {error}") from error
    missing = [name for name in ("run", "prune_configs", "_bench") if name not in autotuner.__dict__]
    if missing:
        raise PolicyError(f"this Triton's Autotuner has no {', '.join(missing)}; supported is Triton 3.2 and newer")


def live_kernels() -> set[str]:
    """Qualified names of the kernels under live autotuners that have a choice to make. Walks all live objects."""
    return {name for name, _ in live_autotuners(import_module("triton.runtime.autotuner").Autotuner)}


def current_target() -> Any:
    """Triton's current target (`backend`, `arch`); raises RuntimeError without an active driver."""
    return import_module("triton.runtime").driver.active.get_current_target()


def is_capturing() -> bool:
    """Whether the current stream is being captured into a CUDA graph."""
    torch = sys.modules.get("torch")
    return bool(torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _listener_knob() -> Any:
    """The object that holds Triton's autotune listener; None before 3.9."""
    try:
        knobs = import_module("triton.knobs")
    except ImportError:
        return None
    autotuning = getattr(knobs, "autotuning", None)
    return autotuning if hasattr(autotuning, "listener") else None


def _has_jit_function(autotuner: Any) -> bool:
    jit_function = import_module("triton.runtime.jit").JITFunction
    function = autotuner
    while not isinstance(function, jit_function):
        if not hasattr(function, "fn"):
            return False
        function = function.fn
    return True


def _shown_keys(autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    named = {**dict(zip(autotuner.arg_names, args, strict=False)), **kwargs}
    return ", ".join(f"{name}={named[name]}" for name in autotuner.keys
                     if name in named and isinstance(named[name], bool | int | float | str))  # fmt: skip
