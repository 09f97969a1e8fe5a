"""In a training job: record what Triton's autotuner chose, pin kernels to a table, check that ranks agree.

Importing this needs neither Triton nor torch, nor the packages of the database half; what works behind an
installed policy is loaded by `install`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import AgreementError, FormatError, LaunchError, PolicyError
from tuning_registry.runtime.control import active_policy, install, uninstall
from tuning_registry.runtime.policy import AutotunePolicy

if TYPE_CHECKING:
    from tuning_registry.runtime.agreement import (
        Agreement,
        Disagreement,
        choice_digest,
        choice_log,
        maybe_verify_choices,
        verify_choices,
    )
    from tuning_registry.runtime.choices import Choice
    from tuning_registry.runtime.report import coverage_report
    from tuning_registry.runtime.triton.coverage import CoverageReport, Miss

__all__ = [
    "Agreement",
    "AgreementError",
    "AutotunePolicy",
    "Choice",
    "CoverageReport",
    "Disagreement",
    "FormatError",
    "LaunchError",
    "Miss",
    "PolicyError",
    "active_policy",
    "choice_digest",
    "choice_log",
    "coverage_report",
    "install",
    "maybe_verify_choices",
    "uninstall",
    "verify_choices",
]

_MODULES = {
    "Choice": "choices",
    "CoverageReport": "triton.coverage",
    "Miss": "triton.coverage",
    "coverage_report": "report",
    **dict.fromkeys(("Agreement", "Disagreement", "choice_digest", "choice_log"), "agreement"),
    **dict.fromkeys(("maybe_verify_choices", "verify_choices"), "agreement"),
}


def __getattr__(name: str) -> Any:
    """A name of checks and reports, which a job may never ask for, from its module (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """The public names, asked for or not."""
    return sorted({*globals(), *__all__})
