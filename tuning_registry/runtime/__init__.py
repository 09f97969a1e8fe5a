"""For training jobs: record the configs that Triton's autotuner picks, pin them, and check that ranks agree.

Importing this package needs neither Triton nor torch nor the packages of the database half.
"""

from tuning_registry.errors import AgreementError, FormatError, LaunchError, PolicyError
from tuning_registry.runtime.agreement import (
    Agreement,
    Disagreement,
    choice_digest,
    choice_log,
    maybe_verify_choices,
    verify_choices,
)
from tuning_registry.runtime.choices import Choice
from tuning_registry.runtime.control import active_policy, coverage_report, install, installed, uninstall
from tuning_registry.runtime.misses import Miss
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.runtime.provenance import provenance
from tuning_registry.runtime.triton.coverage import CoverageReport

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
    "installed",
    "maybe_verify_choices",
    "provenance",
    "uninstall",
    "verify_choices",
]
