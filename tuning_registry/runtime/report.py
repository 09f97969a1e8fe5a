"""The coverage report of this process."""

from __future__ import annotations

from tuning_registry.runtime.control import active_adapter, active_session
from tuning_registry.runtime.guard import fault_counts
from tuning_registry.runtime.triton.coverage import CoverageReport


def coverage_report() -> CoverageReport:
    """What was reached and how, what was missed, and what is known to have escaped; empty without a policy.

    Walks all live objects to find autotuners that bypass us: for the end of a run, not for every step.
    """
    session = active_session()
    return CoverageReport({}, (), (), fault_counts()) if session is None else session.report(active_adapter())
