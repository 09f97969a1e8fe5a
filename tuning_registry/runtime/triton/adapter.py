"""Puts our functions into Triton's `Autotuner` and takes them out again; the only module that imports Triton."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from types import FrameType
from typing import Any, Final

from tuning_registry.errors import LaunchError, PolicyError
from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.job.devices import loaded_torch
from tuning_registry.runtime.triton import coverage
from tuning_registry.runtime.triton.fastpath import (
    ATTRIBUTE,
    LEFT_TO_TRITON,
    UNSEEN,
    Pins,
    is_same,
    make_run,
    remember,
    run_hook,
)
from tuning_registry.runtime.triton.keys import Call, kernel_name
from tuning_registry.runtime.triton.patches import ListenerSlot, Patches, has_listener, tells_listener
from tuning_registry.runtime.triton.pruning import PROBE, ask_pruning
from tuning_registry.runtime.triton.shortcuts import Shortcuts
from tuning_registry.runtime.triton.watch import SINGLE, Handler, Launch, Watch
from tuning_registry.runtime.triton.weak_map import WeakIdentityMap

_numbers: Final = itertools.count()


class Adapter:
    """Our functions inside `triton.runtime.autotuner.Autotuner`, for one handler.

    Patching the class covers autotuners created before and after, and subclasses that call `super()`; only
    the functions that a mode needs are replaced. There is no lock, because users' code (pruning, hooks,
    timers) runs inside these functions, and threads, forks and signal handlers may enter them concurrently.

    Args:
        handler: Decides launches, and learns of tunings.
        pins: Whether launches are pinned (`run` is replaced) or only watched.
        at_first: Called with handler and adapter before the first launch; may install another policy, or `settle`.
    """

    def __init__(self, handler: Handler, pins: bool, at_first: Callable[[Any, Adapter], None] | None = None) -> None:
        self._module = import_module("triton.runtime.autotuner")
        self._class: Any = self._module.Autotuner
        self._handler = handler
        self._pins = pins
        self._at_first = at_first
        self.patches = Patches(self._class)
        self.attribute = f"{ATTRIBUTE}{next(_numbers)}"
        self._shortcuts = Shortcuts(self.attribute, self._check_hook)
        self._watch = Watch(handler)
        self._gives_way = _errors_before_launch()
        knobs = _autotuning_knobs()
        self._slot = ListenerSlot(knobs, self._module, self._hear) if has_listener(knobs) else None
        self._marked: WeakIdentityMap[bool] = WeakIdentityMap()  # autotuners with our attribute
        # Autotuners that were seen, with the keys that their cache held before.
        self._met: WeakIdentityMap[frozenset[Any]] = WeakIdentityMap()
        self._successor: Adapter | None = None
        self._attached = False

    def attach(self, predecessor: Adapter | None = None) -> None:
        """Put our functions in, directly in place of another policy's, so that no launch finds Triton's own in between."""
        self._attached = True
        before = None if predecessor is None else predecessor.patches
        if self._pins:
            # The class has a default, so that the `__getattr__` of a subclass is never asked for our attribute.
            setattr(self._class, self.attribute, UNSEEN)
            self.patches.put_in(
                "run", lambda original: make_run(original, self.begin, self.attribute, self._check_hook), before
            )
        elif self._at_first is not None:
            self.patches.put_in("run", self._make_first, before)
        self.patches.put_in("prune_configs", self._make_prune, before)
        self.patches.put_in("_bench", self._make_bench, before)
        if hasattr(self._class, "check_disk_cache"):
            self.patches.put_in("check_disk_cache", self._make_check, before)
        if self._slot is not None:
            self._slot.put_in()
        if predecessor is not None:
            predecessor.detach(self)

    def detach(self, successor: Adapter | None = None) -> None:
        """Take our functions out: the originals are back, and no autotuner keeps a pin.

        Args:
            successor: The adapter whose functions are in place already; it decides launches that are now inside ours.
        """
        self._successor = successor
        self._attached = False
        self._shortcuts.take_out()
        self.patches.take_out(None if successor is None else successor.patches)
        if self._slot is not None:
            self._slot.take_out()
        if self.attribute in vars(self._class):
            delattr(self._class, self.attribute)
        for autotuner in self._marked.live():
            autotuner.__dict__.pop(self.attribute, None)

    def settle(self) -> None:
        """Give Triton's `run` back: the first launch has decided that launches are only watched."""
        self._at_first = None
        self.patches.take_out_one("run")

    def settle_first(self) -> None:
        """Let `at_first` decide, before the first launch; does nothing later."""
        if self._at_first is not None:
            self._at_first(self._handler, self)

    def _make_first(self, original: Any) -> Any:
        def run(autotuner: Any, /, *args: Any, **kwargs: Any) -> Any:
            if self._attached:
                guarded("choosing the mode", self.settle_first)
            now = vars(self._class)["run"]
            return (original if now is run else now)(autotuner, *args, **kwargs)

        return run

    def unseen(self) -> list[tuple[str, str]]:
        """Live autotuners whose choices were not seen, and why (`coverage.unseen_kernels`)."""
        return coverage.unseen_kernels(self._class, self._met.get)

    def begin(self, original: Any, autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first launch of a key: decide it, launch, and store the pin once the launch has succeeded."""
        if not self._attached or not self._pins:
            successor = self._successor
            if successor is None or vars(autotuner).get(successor.attribute, successor) is None:
                return original(autotuner, *args, **kwargs)
            return successor.begin(original, autotuner, args, kwargs)
        call = Call(autotuner, args, kwargs)
        launch = self._decide(call)
        while launch is not None and launch.candidate is not None:
            try:
                result = self._launch(call, launch.candidate)
            except self._gives_way as error:
                instead = guarded("choosing another candidate", launch.give_way, error)
                if instead is None:
                    raise
                launch = instead
            else:
                guarded("noting a launch", launch.succeeded)
                self._remember(call, launch)
                return result
        if launch is not None:
            self._remember(call, launch)
        return original(autotuner, *args, **kwargs)

    def _launch(self, call: Call, candidate: Any) -> Any:
        """Launch a candidate as `make_run` does."""
        autotuner = call.autotuner
        autotuner.best_config = candidate
        options = candidate.all_kwargs()
        if candidate.pre_hook is not None:
            before, options = options, run_hook(autotuner, candidate, call.args, call.kwargs)
            if not is_same(options, before):
                self._check_hook(call, candidate)
        return autotuner.fn.run(*call.args, **call.kwargs, **options)

    def _check_hook(self, call: Call, candidate: Any) -> None:
        """Refuse a config that its hook has changed to a banned one."""
        guarded("reading the bans", self._handler.check_hook, call, candidate)

    def _decide(self, call: Call) -> Launch | None:
        """What to launch; None leaves the launch to Triton."""
        autotuner = call.autotuner
        self._met.put(autotuner, frozenset())
        if guarded("inspecting a kernel", self._handler.is_pinned, call) is False:
            self._mark(autotuner, None)
            return None
        configs = autotuner.configs
        pruned = list(configs) if len(configs) == 1 else ask_pruning(autotuner, call.args, call.kwargs)
        if not pruned:
            return None  # Triton raises its own error
        kept = self._pins_of(autotuner).kept
        answer = guarded("pinning a kernel", self._handler.pin, call, pruned, kept)
        return answer or self._handler.pin_after_fault(call, pruned)

    def _remember(self, call: Call, launch: Launch) -> None:
        if launch.lasts and self._attached:
            candidate = launch.candidate
            pin = LEFT_TO_TRITON if candidate is None else (candidate, candidate.all_kwargs())
            guarded("storing a decision", remember, self._pins_of(call.autotuner), call, pin)
            guarded("preparing a faster launch", self._shortcuts.put_in, type(call.autotuner))
            if not self._attached:  # another policy has come meanwhile
                self._shortcuts.take_out()

    def _pins_of(self, autotuner: Any) -> Pins:
        pins: Pins | None = vars(autotuner).get(self.attribute)
        if pins is None or not pins.fit(autotuner):
            fresh = Pins(autotuner, guarded("detecting the device", self._handler.device_index))
            pins = self._mark(autotuner, fresh)
        return pins

    def _mark(self, autotuner: Any, pins: Any) -> Any:
        """Store an autotuner's pins (None: it is never pinned), unless another thread has stored fitting ones."""
        self._marked.put(autotuner, True)
        found = vars(autotuner).setdefault(self.attribute, pins)
        if found is not pins and not (found and found.fit(autotuner)):
            found = vars(autotuner)[self.attribute] = pins
        if not self._attached:
            vars(autotuner).pop(self.attribute, None)
        return found

    def _make_prune(self, original: Any) -> Any:
        def prune_configs(autotuner: Any, /, kwargs: dict[str, Any]) -> Any:
            pruned = original(autotuner, kwargs)
            # `Autotuner.warmup` also prunes, but tunes nothing; only launches pass an argument named `warmup`.
            if not self._attached or PROBE in vars(autotuner) or "warmup" not in kwargs:
                return pruned
            args = tuple((getattr(autotuner, "nargs", None) or {}).values())
            call = Call(autotuner, args, kwargs)
            allowed = guarded("reading the bans", self._handler.allowed, call, pruned)
            pruned = pruned if allowed is None else allowed
            if self._is_read_by_triton(autotuner, pruned, sys._getframe(1)):  # noqa: SLF001 - as `logging` does
                share = guarded("sharing the work", self._handler.share, call, pruned)
                pruned = pruned if share is None else share
            going_on = guarded("watching a tuning", self._on_prune, call, pruned)
            return pruned if going_on is None else going_on

        return prune_configs

    def _on_prune(self, call: Call, pruned: Any) -> Any:
        autotuner, doubt = call.autotuner, ""
        if self._times_its_own_way(autotuner):
            in_capture = guarded("checking for a graph capture", is_capturing)
            doubt = coverage.IN_CAPTURE if in_capture else coverage.OWN_TIMING
        return self._begin(call, pruned, doubt)

    def _times_its_own_way(self, autotuner: Any) -> bool:
        """Whether its class replaces the function that times a candidate, so that ours is not called."""
        return inspect.getattr_static(autotuner, "_bench") is not vars(self._class)["_bench"]

    def _is_read_by_triton(self, autotuner: Any, pruned: Any, caller: FrameType) -> bool:
        """Whether Triton itself takes the candidates one by one from what pruning returns, and ours sees each timing.

        Only then can a share grow. A class with its own loop may copy them first, or time them in other threads.
        """
        is_ours = inspect.getattr_static(autotuner, "prune_configs") is vars(self._class)["prune_configs"]
        is_triton = caller.f_globals is vars(self._module)
        return is_ours and is_triton and not self._times_its_own_way(autotuner) and hasattr(pruned, "__len__")

    def _begin(self, call: Call, pruned: Any, doubt: str) -> Any:
        autotuner = call.autotuner
        cache = getattr(autotuner, "cache", None)
        keys = frozenset(cache.copy()) if isinstance(cache, dict) else frozenset()
        earlier = self._met.get(autotuner)
        # A key that was evicted from Triton's cache and is tuned again no longer counts as chosen before install.
        self._met.put(autotuner, keys if earlier is None else earlier & keys)
        is_told = self._is_told(autotuner)
        return self._watch.begin(call, pruned, is_told, "" if is_told and doubt != coverage.IN_CAPTURE else doubt)

    def _is_told(self, autotuner: Any) -> bool:
        """Whether Triton's own `run` will tell its listener, and thereby us, its choice for this autotuner."""
        if self._slot is None or not self._slot.is_in or "run" in vars(autotuner):
            return False
        run = self.patches.original_of("run", type(autotuner).run)
        return tells_listener(run, self._module) and _has_jit_function(autotuner)

    def _hear(self, autotuner: Any) -> Callable[..., None] | None:
        tuning = self._watch.find(autotuner) if self._attached else None
        # With a single candidate, Triton passes its listener timings that may not exist.
        if tuning is None or tuning.origin == SINGLE or not _has_jit_function(autotuner):
            return None
        return lambda **event: guarded("watching a tuning", self._watch.listened, tuning, event)

    def _on_timed(self, autotuner: Any, args: tuple[Any, ...], meta: dict[str, Any], config: Any, timing: Any) -> None:
        call = Call(autotuner, args, meta)
        if self._watch.find(autotuner) is None:  # its class overrides pruning, so ours was not called
            self._begin(call, None, coverage.OWN_PRUNING)
        self._watch.timed(call, config, timing)

    def _make_bench(self, original: Any) -> Any:
        def _bench(autotuner: Any, /, *args: Any, config: Any, **meta: Any) -> Any:
            if not self._attached:
                return original(autotuner, *args, config=config, **meta)
            if guarded("reading the bans", self._is_banned, Call(autotuner, args, meta), config):
                return [float("inf")] * 3  # as Triton does for a config that does not run
            again = guarded("sharing the work", self._watch.timed_before, autotuner, config)
            if again is not None:
                guarded("watching a tuning", self._on_timed, autotuner, args, meta, config, again)
                return again
            try:
                if guarded("checking for a graph capture", is_capturing):
                    raise LaunchError(
                        f"{kernel_name(autotuner)} (keys: {_shown_keys(autotuner, args, meta)}) would be timed inside a "
                        "CUDA-graph capture, which timing breaks. Launch it once before the capture, or pin this key."
                    )
                guarded("auditing a kernel", self._on_first, Call(autotuner, args, meta))
                timing = original(autotuner, *args, config=config, **meta)
            except BaseException:  # raised again after the state of the call is dropped
                guarded("watching a tuning", self._watch.forget, autotuner)
                raise
            guarded("watching a tuning", self._on_timed, autotuner, args, meta, config, timing)
            return timing

        return _bench

    def _on_first(self, call: Call) -> None:
        tuning = self._watch.find(call.autotuner)
        if tuning is not None and tuning.calls == 0:
            self._handler.times(tuning, call)

    def _is_banned(self, call: Call, config: Any) -> bool:
        """Whether a class that prunes its own way is about to time a banned config."""
        try:
            return not self._handler.allowed(call, [config])
        except LaunchError:
            return True

    def _make_check(self, original: Any) -> Any:
        def check_disk_cache(autotuner: Any, /, tuning_key: Any, configs: Any, bench_fn: Any) -> Any:
            hit = original(autotuner, tuning_key, configs, bench_fn)
            if hit and self._pins and self._attached and not _is_offered(autotuner.cache[tuning_key], configs):
                del autotuner.cache[tuning_key]  # a file may hold any config, also a banned one
                bench_fn()
                return False
            if hit and self._attached:
                guarded("watching a tuning", lambda: self._watch.echoed(autotuner, autotuner.cache[tuning_key]))
            return hit

        return check_disk_cache


def is_installed() -> bool:
    """Whether Triton can be imported here; it is not imported."""
    return "triton" in sys.modules or importlib.util.find_spec("triton") is not None


def check_supported() -> None:
    """Import Triton's autotuner.

    Raises:
        PolicyError: Triton cannot be imported, or the release is not supported.
    """
    try:
        autotuner = import_module("triton.runtime.autotuner").Autotuner
    except ImportError as error:
        raise PolicyError(f"this policy needs Triton, which cannot be imported: {error}") from error
    missing = [name for name in ("run", "prune_configs", "_bench") if name not in autotuner.__dict__]
    if missing:
        raise PolicyError(f"this Triton's Autotuner has no {', '.join(missing)}; Triton 3.2 or newer is required")


def _errors_before_launch() -> tuple[type[BaseException], ...]:
    """The errors of Triton that come before anything runs: the config does not compile, or does not fit the device."""
    runtime, compiler = import_module("triton.runtime.errors"), import_module("triton.compiler.errors")
    names = ((runtime, "OutOfResources"), (runtime, "PTXASError"), (compiler, "CompilationError"))
    return tuple(getattr(module, name) for module, name in names if hasattr(module, name))


def current_target() -> Any:
    """Triton's current target (`backend`, `arch`); raises RuntimeError without an active driver."""
    return import_module("triton.runtime").driver.active.get_current_target()


def is_capturing() -> bool:
    """Whether the current stream is being captured into a CUDA graph."""
    torch = loaded_torch()
    return bool(torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _is_offered(config: Any, candidates: Iterable[Any]) -> bool:
    """Whether a config from Triton's disk cache is one of the candidates, by what it passes to a launch."""
    return any(is_same(one.all_kwargs(), config.all_kwargs()) for one in candidates)


def _autotuning_knobs() -> Any:
    """The object that holds Triton's autotune listener (from 3.9 on); None in releases without it."""
    try:
        return getattr(import_module("triton.knobs"), "autotuning", None)
    except ImportError:
        return None


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
