"""`python -m tuning_registry.runtime [options] train.py args...`: run a training script under a policy."""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import logging
import os
import sys
import types
from collections.abc import Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, RegistryError
from tuning_registry.runtime.control import install
from tuning_registry.runtime.options import (
    PREFIX,
    add_policy_options,
    environment_fields,
    flag_of,
    option_fields,
    option_variables,
)
from tuning_registry.runtime.policy import AutotunePolicy

_NAME: Final = "python -m tuning_registry.runtime"


def main(argv: list[str] | None = None) -> int:
    """Install the policy of environment and options (options win), then run the script as `__main__`.

    Works under any launcher: `torchrun ... -m tuning_registry.runtime --record-path /shared/rec train.py`. The
    options are put into the environment, where `install()` in a process that the script starts finds them.

    Returns:
        2 where the policy is refused or there is no such script; otherwise the script's own end decides.
    """
    parser = argparse.ArgumentParser(
        prog=_NAME, allow_abbrev=False,
        description="Run a training script with its Triton autotuners recorded, pinned or watched.",
    )  # fmt: skip
    add_policy_options(parser)
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module name, as for python -m")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what the runtime does to stderr")
    parser.add_argument("script", help="script or module to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments").required = False
    given = sys.argv[1:] if argv is None else argv
    options = parser.parse_args(given)
    # argparse takes a first -- of the script's own arguments for one of its own.
    if given[-len(options.arguments) - 2 :][:2] == [options.script, "--"]:
        options.arguments.insert(0, "--")
    if options.verbose or options.enumerate_autotuners:
        _log_to_stderr()
    try:
        policy = _read_policy(options)
        if not options.module and not os.path.exists(options.script):  # noqa: PTH110  # raises for no path
            parser.exit(2, f"{_NAME}: no such script: {options.script!r}\n")
        os.environ.update(option_variables(options, policy))
        install()
    except (RegistryError, OSError, RuntimeError) as error:
        parser.exit(2, f"{_NAME}: {error}\n")
    if options.module:
        run_module(options.script, options.arguments)
    else:
        run_script(options.script, options.arguments)
    return 0


def _read_policy(options: argparse.Namespace) -> AutotunePolicy:
    """The policy of environment and options; an error names the variable or option."""
    variables, given = environment_fields(), option_fields(options)
    try:
        return AutotunePolicy.from_mapping({**variables, **given})
    except FormatError as fault:
        name, *place = fault.path
        is_variable = name in variables and name not in given
        raise FormatError(fault.what, (PREFIX + name.upper() if is_variable else flag_of(name), *place)) from None


def _log_to_stderr() -> None:
    """Print our log, with what is no warning, for as long as the script sets up no logging of its own."""
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("tuning_registry")
    handler.addFilter(lambda _: logger.handlers == [handler] and not logging.getLogger().handlers)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def run_script(script: str, arguments: Sequence[str]) -> None:
    """Run a file, or a folder or archive with a `__main__.py`, as `python SCRIPT` would."""
    sys.argv, given = [script, *arguments], script
    script = os.path.abspath(script)  # noqa: PTH100  # as Python's __file__, which outlives a change of folder
    holder = importlib.machinery.PathFinder.find_spec("__main__", [script])
    if holder is not None and holder.loader is not None:  # a folder or an archive
        _put_first(script)
        _run(_code_of(holder), holder.origin or script, holder.loader, holder)
        return
    if os.path.isdir(script):  # noqa: PTH112
        sys.stderr.write(f"{_NAME}: no __main__.py in {given}\n")
        sys.exit(2)
    _put_first(os.path.dirname(os.path.realpath(script)))  # noqa: PTH120  # "" for none
    if script.endswith(".pyc"):
        compiled = importlib.machinery.SourcelessFileLoader("__main__", script)
        code = compiled.get_code("__main__")
        assert code is not None
        _run(code, script, compiled, None)
        return
    loader = importlib.machinery.SourceFileLoader("__main__", script)
    # Not its get_code, which would leave a compiled copy beside the script.
    _run(loader.source_to_code(loader.get_data(script), script), script, loader, None)


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run a module, or a package's `__main__`, as `python -m NAME` would."""
    sys.argv = [name, *arguments]
    _put_first(os.getcwd())  # noqa: PTH109  # a str
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that the package itself imports
        spec = None
    except (ImportError, ValueError):
        if not name.startswith("."):
            raise
        spec = None
    if spec is None or spec.origin is None or not spec.has_location:
        sys.stderr.write(f"{_NAME}: no module named {name}\n")
        sys.exit(2)
    sys.argv[0] = spec.origin
    _run(_code_of(spec), spec.origin, spec.loader, spec)


def _run(code: types.CodeType, file: str, loader: object, spec: importlib.machinery.ModuleSpec | None) -> None:
    """Run code as the module `__main__`, and leave that in place: threads and exit handlers outlive its last line."""
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=file, __cached__=None, __builtins__=__builtins__, __spec__=spec, __loader__=loader,
        __package__=None if spec is None else spec.parent,
    )  # fmt: skip
    # Ours is kept under the name that it would have had: its functions still run.
    sys.modules.setdefault("tuning_registry.runtime.__main__", sys.modules["__main__"])
    sys.modules["__main__"] = module
    exec(code, module.__dict__)  # noqa: S102 - the script that the user asked for


def _code_of(spec: importlib.machinery.ModuleSpec) -> types.CodeType:
    loader: Any = spec.loader
    code = loader.get_code(spec.name)
    assert isinstance(code, types.CodeType)
    return code


def _put_first(folder: str) -> None:
    """Make `folder` the first place to import from, in place of ours; with PYTHONSAFEPATH (-P) there is none."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


if __name__ == "__main__":
    sys.exit(main())
