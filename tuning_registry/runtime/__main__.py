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

from tuning_registry.errors import RegistryError
from tuning_registry.runtime.control import install
from tuning_registry.runtime.policies.options import add_policy_options, option_variables, policy_from_options

_NAME: Final = "python -m tuning_registry.runtime"


def main(argv: list[str] | None = None) -> int:
    """Install the policy of environment and options (options take precedence), then run the script as `__main__`.

    Works under any launcher: `torchrun ... -m tuning_registry.runtime --record-path /shared/rec train.py`. The
    options are copied to the environment, so that processes started by the script find them with `install()`.

    Returns:
        Nothing but 0: a rejected policy or a missing script exits with status 2, and the script may exit itself.
    """
    parser = argparse.ArgumentParser(
        prog=_NAME, allow_abbrev=False,
        description="Run a training script with its Triton autotuners recorded, pinned or watched. Each policy option is "
        "also an environment variable: --record-path is TUNING_REGISTRY_RECORD_PATH. Options take precedence.",
    )  # fmt: skip
    add_policy_options(parser)
    parser.add_argument("-m", "--module", action="store_true", help="The script is a module name, as for python -m.")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="Log details to stderr, such as what ranks other than 0 do."
    )
    parser.add_argument("script", help="Script or module to run.")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="Arguments of the script.").required = False
    given = sys.argv[1:] if argv is None else argv
    options = parser.parse_args(given)
    # argparse drops a leading -- from the script's own arguments.
    if given[-len(options.arguments) - 2 :][:2] == [options.script, "--"]:
        options.arguments.insert(0, "--")
    _log_to_stderr(verbose=options.verbose)
    try:
        policy = policy_from_options(options)
        if not options.module and not os.path.exists(options.script):  # noqa: PTH110  # never raises
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


def _log_to_stderr(*, verbose: bool) -> None:
    """Print our log to stderr for as long as the script sets up no logging; then follow the script's level."""
    handler = logging.StreamHandler(sys.stderr)
    logger, root = logging.getLogger("tuning_registry"), logging.getLogger()
    handler.addFilter(lambda _: logger.handlers == [handler] and not root.handlers)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    if not verbose:
        logger.addFilter(lambda record: record.levelno >= root.level or not root.handlers)


def run_script(script: str, arguments: Sequence[str]) -> None:
    """Run a file, or a folder or archive with a `__main__.py`, as `python SCRIPT` does."""
    sys.argv, given = [script, *arguments], script
    script = os.path.abspath(script)  # noqa: PTH100  # like Python's __file__, it must stay valid if the folder changes
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
    # Not get_code, which would write a compiled copy next to the script.
    _run(loader.source_to_code(loader.get_data(script), script), script, loader, None)


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run a module, or a package's `__main__`, as `python -m NAME` does."""
    sys.argv = [name, *arguments]
    _put_first(os.getcwd())  # noqa: PTH109  # a str
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the package itself imports a missing module
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
    """Run code as the module `__main__`, which stays in place for threads and exit handlers."""
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=file, __cached__=None, __builtins__=__builtins__, __spec__=spec, __loader__=loader,
        __package__=None if spec is None else spec.parent,
    )  # fmt: skip
    # Our own module stays importable under its real name, since its functions are still running.
    sys.modules.setdefault("tuning_registry.runtime.__main__", sys.modules["__main__"])
    sys.modules["__main__"] = module
    exec(code, module.__dict__)  # noqa: S102 - the script that the user asked for


def _code_of(spec: importlib.machinery.ModuleSpec) -> types.CodeType:
    loader: Any = spec.loader
    code = loader.get_code(spec.name)
    assert isinstance(code, types.CodeType)
    return code


def _put_first(folder: str) -> None:
    """Make `folder` the first entry of sys.path, as Python does, except with PYTHONSAFEPATH (-P)."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


if __name__ == "__main__":
    sys.exit(main())
