"""torchrun whose ranks are forks of one process that has imported torch and Triton, so that eight start quickly.

Arguments, rendezvous, environment and supervision are those of torch.
"""

# mypy: disable-error-code="import-untyped, import-not-found"
# (Triton and torch have no types, or are not installed.)

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import torch
import triton
from torch.distributed import run

PRELOADED = (torch, triton)
config_of = run.config_from_args


def be_python(*arguments: str) -> None:
    """Do what `python ARGUMENTS` would do, in this process."""
    is_module = arguments[0] == "-m"
    name, *sys.argv[1:] = arguments[is_module:]
    sys.argv[0] = name
    sys.path[0] = "" if is_module else str(Path(name).parent)
    if is_module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(name, run_name="__main__")


def with_forks(args: Any) -> tuple[Any, Any, list[str]]:
    """What torchrun launches: a function in a fork instead of a command."""
    config, _, command = config_of(args)
    config.start_method = "fork"
    return config, be_python, [word for word in command if word != "-u"]


run.config_from_args = with_forks
run.main()
