"""In a training job: record what Triton's autotuner chose, pin kernels to a table, check that ranks agree.

Importing this needs neither Triton nor torch, nor the packages of the database half.
"""

from tuning_registry.runtime.agreement import (
    Agreement,
    Disagreement,
    choice_digest,
    choice_log,
    maybe_verify_choices,
    verify_choices,
)
from tuning_registry.runtime.choices import Choice
from tuning_registry.runtime.control import active_policy, coverage_report, install, uninstall
from tuning_registry.runtime.coverage import CoverageReport, Miss
from tuning_registry.runtime.policy import AutotunePolicy

__all__ = [
    "Agreement",
    "AutotunePolicy",
    "Choice",
    "CoverageReport",
    "Disagreement",
    "Miss",
    "active_policy",
    "choice_digest",
    "choice_log",
    "coverage_report",
    "install",
    "maybe_verify_choices",
    "uninstall",
    "verify_choices",
]
