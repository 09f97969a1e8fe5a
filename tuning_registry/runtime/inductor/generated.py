"""What the graphs and the generated kernels of Inductor tell about themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.triton.keys import source_hash

_BEHIND: Final = "_tuning_registry_launchers"
OWN: Final = "torch._inductor"  # the module that Inductor's own kernels and templates go by


def may_have_kernels(details: Any) -> bool:
    """Whether a graph has Triton kernels of the user, or operators that may be made of them (`triton_op`)."""
    if getattr(details, "user_defined_triton_source", None):
        return True
    graphs = (
        [module.graph for module in details.gm.modules() if hasattr(module, "graph")] if details.gm is not None else []
    )
    return any(_is_of_user(node.target) for graph in graphs for node in graph.nodes if node.op == "call_function")


def _is_of_user(target: Any) -> bool:
    name = getattr(target, "_qualified_op_name", None) or getattr(target, "namespace", "")
    namespace = str(name).partition("::")[0]
    return bool(namespace) and namespace not in {
        "aten",
        "prims",
        "prim",
        "higher_order",
        "inductor",
        "_c10d_functional",
    }


def function_name(autotuner: Any) -> str:
    """The name of a kernel's function in generated code."""
    return str(getattr(autotuner.fn, "__name__", "kernel"))


def code_name(autotuner: Any) -> str:
    """The name of a kernel without a note: Inductor's own, or a user's whose module is not known."""
    return f"{OWN}.{function_name(autotuner)}"


def code_key(autotuner: Any) -> str:
    """The sizes that a kernel was generated for, and its source: equal on ranks that run equal code."""
    sizes = getattr(autotuner, "size_hints", None) or {}
    fields = [f"{name}={size}" for name, size in sizes.items()] if isinstance(sizes, dict) else [f"sizes={list(sizes)}"]
    return "|".join([*fields, f"source={(source_hash(autotuner) or '')[:16]}"])


def launch_names(launcher: Any) -> Sequence[str]:
    """The names of a launcher's arguments; Inductor compiles it with the names that it takes."""
    code = getattr(launcher, "__code__", None)
    names: Sequence[str] = () if code is None else code.co_varnames[: code.co_argcount]
    return names


def launchers_of(autotuner: Any) -> list[Any]:
    """The launchers of a kernel; those behind one that dispatches, if Inductor has loaded it before."""
    return list(getattr(autotuner.launchers[0], _BEHIND, autotuner.launchers) if autotuner.launchers else ())


def dispatching(launchers: Sequence[Any], places: Sequence[int], choose: Callable[[tuple[Any, ...]], Any]) -> Any:
    """A launcher that chooses among launchers for each combination of sizes.

    Args:
        launchers: The launchers; if choosing fails, the first one is launched.
        places: The positions of the sizes in the arguments of a launch.
        choose: Returns the launcher for the arguments of a launch.
    """
    chosen: dict[tuple[Any, ...], Any] = {}

    def launcher(*args: Any, **kwargs: Any) -> Any:
        try:
            sizes = tuple([args[place] for place in places])
            found = chosen.get(sizes)
        except (IndexError, TypeError):  # passed by name, or not hashable
            return launchers[0](*args, **kwargs)
        if found is None:
            found = chosen[sizes] = guarded("pinning a compiled kernel", choose, args) or launchers[0]
        return found(*args, **kwargs)

    vars(launcher).update(vars(launchers[0]), **{_BEHIND: launchers})
    # Later releases build a faster form of one that is static, from the code and globals of the function.
    vars(launcher).pop("_is_static", None)
    return launcher
