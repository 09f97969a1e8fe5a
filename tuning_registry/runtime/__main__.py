"""`python -m tuning_registry.runtime [options] train.py args...`: run a training script under a policy."""

from __future__ import annotations

import argparse
import logging
import runpy
import sys
from pathlib import Path

from tuning_registry.errors import RegistryError
from tuning_registry.runtime.control import install
from tuning_registry.runtime.options import add_policy_options, environment_fields, option_fields
from tuning_registry.runtime.policy import AutotunePolicy


def main(argv: list[str] | None = None) -> int:
    """Install the policy of environment and options (options win), then run the script as `__main__`.

    Works under any launcher: `torchrun ... -m tuning_registry.runtime --record-path /shared/rec train.py`.

    Returns:
        2 where the policy is refused; otherwise the script's own end decides.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tuning_registry.runtime", allow_abbrev=False,
        description="Run a training script with its Triton autotuners recorded, pinned or watched.",
    )  # fmt: skip
    add_policy_options(parser)
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module name, as for python -m")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what the runtime does to stderr")
    parser.add_argument("script", help="script or module to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(argv)
    if options.verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    try:
        policy = AutotunePolicy.from_mapping({**environment_fields(), **option_fields(options)})
        install(policy, deterministic=options.deterministic or None)
    except RegistryError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    run_script(options.script, options.arguments, as_module=options.module)
    return 0


def run_script(script: str, arguments: list[str], *, as_module: bool) -> None:
    """Run a script or module as Python itself would: `sys.argv`, `sys.path[0]` and `__main__` are its own."""
    sys.argv = [script, *arguments]
    if as_module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(script).resolve().parent)
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    sys.exit(main())
