"""A machine with torch.compile and without a GPU: Inductor generates Triton code, and compiling and timing are faked."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


class Machine:
    """What happens to candidates; each is named by its kernel and config (`add BLOCK=64 w2`).

    Attributes:
        compiled: Candidates that were compiled, in order.
        autotuners: The last one of each kernel that was compiled.
        timed: Candidates that Inductor timed.
        launched: Candidates that were launched.
        broken: Candidates that do not compile.
        stores_cubins: Whether launchers are those of a model in C++.
        times: Milliseconds by candidate; 1.0 for the others.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._folder = folder
        self.stores_cubins = False
        monkeypatch.setattr(
            "torch._inductor.runtime.triton_heuristics.CachingAutotuner.save_cpu_kernel", lambda *_: None
        )
        self.broken: set[str] = set()
        self.times: dict[str, float] = {}
        self.new_process()

    def new_process(self, cache: str = "cache") -> None:
        """Forget what a process keeps in memory; the files of this cache stay."""
        import torch._dynamo
        from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
        from torch._inductor.codecache import PyCodeCache

        torch._dynamo.reset()
        kernel_side_table.reset_table()
        PyCodeCache.cache_clear()
        self._monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(self._folder / cache))
        self.compiled: list[str] = []
        self.autotuners: dict[str, Any] = {}
        self.timed: list[str] = []
        self.launched: list[str] = []

    def precompile(self, autotuner: Any, config: Any) -> Any:
        from torch._inductor.runtime import triton_heuristics

        name = name_of(autotuner, config)
        self.compiled.append(name)
        self.autotuners[autotuner.fn.__name__] = autotuner
        if name in self.broken:
            raise triton_heuristics.OutOfResources(2, 1, "shared memory")
        constexprs = {autotuner.fn.arg_names[i] for i in triton_heuristics.get_constexprs(autotuner.fn)}
        names = [arg for arg in autotuner.triton_meta["signature"] if arg not in constexprs]
        source = f"def launcher({', '.join([*names, '*extra', 'stream'])}): launched.append({name!r})"
        scope: dict[str, Any] = {"launched": self.launched}
        exec(source, scope)
        launcher = scope["launcher"]
        launcher.config, launcher.cache_hash, launcher.store_cubin = config, "hash", self.stores_cubins
        launcher.n_regs = launcher.n_spills = launcher.shared = 0
        return SimpleNamespace(config=config, kernel=SimpleNamespace(hash="ab"), make_launcher=lambda: launcher)

    def bench(self, autotuner: Any, launcher: Any) -> float:
        name = name_of(autotuner, launcher.config)
        self.timed.append(name)
        return self.times.get(name, 1.0)

    def of(self, names: list[str], kernel: str = "add") -> list[str]:
        """The candidates of one kernel."""
        return [name for name in names if name.split()[0] == kernel]


def name_of(autotuner: Any, config: Any) -> str:
    sizes = " ".join(
        f"{key}={value}" for key, value in config.kwargs.items() if re.fullmatch("[XR]?[0-9]?_?BLOCK", key)
    )
    return f"{autotuner.fn.__name__} {sizes} w{config.num_warps}"


def _calling(method: Any) -> Any:
    """A function of a class that passes its autotuner, and one argument more, on to a method of the machine."""

    def function(autotuner: Any, argument: Any, *_: Any, **__: Any) -> Any:
        return method(autotuner, argument)

    return function


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    version = pytest.importorskip("torch").__version__
    triton = pytest.importorskip("triton")
    if not version.startswith("2.13."):
        pytest.skip(f"drives the internals of torch 2.13, and this is {version}")
    if triton.__version__ < "3.3":
        pytest.skip(
            "torch 2.13 does not come with Triton 3.2, whose autotuner needs a GPU as soon as Dynamo derives one"
        )
    import torch._inductor.config
    import torch.utils._triton
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    monkeypatch.setattr(torch.utils._triton, "has_triton", lambda *_: True)
    monkeypatch.setattr(torch.utils._triton, "triton_hash_with_backend", lambda: "fake")
    made = Machine(monkeypatch, tmp_path)
    monkeypatch.setattr(CachingAutotuner, "_precompile_config", _calling(made.precompile))
    monkeypatch.setattr(CachingAutotuner, "bench", _calling(made.bench))
    with torch._inductor.config.patch(cpu_backend="triton", compile_threads=1):
        yield made
    torch._dynamo.reset()
