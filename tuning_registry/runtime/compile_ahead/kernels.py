"""Compiling one kernel as its launch would, in a process that launches nothing and needs no GPU."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tuning_registry.model.specializations import Specialization
from tuning_registry.runtime.compile_ahead.absent_gpu import describe_to_torch, device_properties

_ERROR_LENGTH: Final = 300


def cache_folder() -> Path:
    """The folder of Triton's cache."""
    knobs = getattr(import_module("triton"), "knobs", None)  # since 3.4, a script may also set it there
    stated = os.environ.get("TRITON_CACHE_DIR", "").strip() if knobs is None else knobs.cache.dir
    home = os.environ.get("TRITON_HOME", "").strip() or Path("~").expanduser()
    return Path(stated or Path(home, ".triton", "cache")).absolute()


class LaunchlessDriver:
    """Stands in for Triton's driver, so that kernels are compiled for stated targets and no GPU is asked.

    For everything else that a module may ask when it is imported, it is the machine's own driver, if there is one.

    Args:
        targets: Backend, architecture and warp size; each is a device.
    """

    def __init__(self, targets: list[tuple[str, int | str, int]]) -> None:
        self._described = targets
        gpu_target = import_module("triton.backends.compiler").GPUTarget
        self._targets = [gpu_target(*target) for target in targets]
        self._current = 0
        self._own: Any = None

    def get_current_device(self) -> int:
        """The number of the target that kernels are compiled for now."""
        return self._current

    def set_current_device(self, device: int) -> None:
        """Compile for another target."""
        self._current = device

    def get_current_stream(self, _device: int | None = None) -> int:
        """The default stream."""
        return 0

    def get_current_target(self) -> Any:
        """The target that kernels are compiled for now."""
        return self._targets[self._current]

    def get_benchmarker(self) -> Callable[..., Any]:
        """Triton's function that takes timings, which Triton 3.2 asks for when an autotuner is made."""
        timer: Callable[..., Any] = import_module("triton.testing").do_bench
        return timer

    def __getattr__(self, name: str) -> Any:
        """What the machine's own driver has; raises RuntimeError without one, as Triton does."""
        try:
            if self._own is None:
                self._own = import_module("triton.runtime.driver")._create_driver()  # noqa: SLF001 - no other way
        except RuntimeError:
            if name != "utils":
                raise
            target = self._described[self._current]
            return SimpleNamespace(get_device_properties=lambda *_: device_properties(target))
        return getattr(self._own, name)


class Compilation:
    """Compiles kernels in this process, into Triton's cache.

    Args:
        kernels: All kernels that will be compiled.
    """

    def __init__(self, kernels: list[Specialization]) -> None:
        self._targets = list(dict.fromkeys(kernel.target for kernel in kernels))
        self._driver = LaunchlessDriver(self._targets)
        describe_to_torch(kernels)
        import_module("triton.runtime").driver.set_active(self._driver)
        self._has_compiled = False
        source: Any = import_module("triton.compiler.compiler").ASTSource
        make_ir = source.make_ir

        def noting(*args: Any, **options: Any) -> Any:
            self._has_compiled = True  # of a kernel in the cache, no code is made
            return make_ir(*args, **options)

        source.make_ir = noting

    def compile(self, kernel: Specialization, function: Any) -> tuple[bool, str, str]:
        """Compile a kernel unless it is in the cache.

        Returns:
            Whether it was compiled, its key in the cache, and why its launcher is left to the launch (empty: it is not).
        """
        self._driver.set_current_device(self._targets.index(kernel.target))
        self._has_compiled = False
        compiled = function.preload(kernel.data)
        return self._has_compiled, str(compiled.hash), _build_launcher(compiled)


def find_function(module: str, name: str, script: str | None = None) -> Any:
    """The JITFunction of this qualified name in a module, which is imported.

    Args:
        module: Name of the module.
        name: Qualified name of the function.
        script: The file that the job runs as its script, which is not imported: without `__main__`, it would train.

    Raises:
        LookupError: There is none, or several have this name, or the module is the script.
        Exception: What importing the module raises.
    """
    spec = None if module in sys.modules else importlib.util.find_spec(module)
    if spec is not None and script is not None and os.path.realpath(spec.origin or "") == os.path.realpath(script):
        raise LookupError(f"the module {module} is the training script itself, which only the job may run")
    value: Any = import_module(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    jit_function = import_module("triton.runtime.jit").JITFunction
    while value is not None and not isinstance(value, jit_function):
        value = getattr(value, "fn", None)
    if value is not None and _is_named(value, module, name):
        return value
    # Under a decorator that hides it, or made by a function while the module was imported.
    found = [thing for thing in gc.get_objects() if isinstance(thing, jit_function) and _is_named(thing, module, name)]
    sources = {thing.src for thing in found}
    if len(sources) != 1:
        what = "has several kernels" if sources else "has no kernel"
        raise LookupError(f"the module {module} {what} of the name {name}")
    return found[0]


def _is_named(function: Any, module: str, name: str) -> bool:
    return bool(function.fn.__module__ == module and function.fn.__qualname__ == name)


def _build_launcher(compiled: Any) -> str:
    """Build what older releases also build at a kernel's first launch: a module of C that passes its arguments.

    Returns:
        Why it cannot be built, for instance without the driver's library; empty if nothing is left to do.
    """
    backend = compiled.metadata.target.backend
    vendor = {"cuda": "nvidia", "hip": "amd"}.get(backend, backend)
    driver = sys.modules.get(f"triton.backends.{vendor}.driver")
    launcher = getattr(driver, "CudaLauncher", None) or getattr(driver, "HIPLauncher", None)
    if launcher is None or not hasattr(driver, "make_launcher"):
        return ""
    try:
        launcher(compiled.src, compiled.metadata)
    except Exception as error:  # noqa: BLE001 - without libcuda or a C compiler: an AssertionError, an OSError, ...
        return described(error)
    return ""


def described(error: BaseException) -> str:
    """An error on one line; some of Triton's quote the whole kernel."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:_ERROR_LENGTH]}"
