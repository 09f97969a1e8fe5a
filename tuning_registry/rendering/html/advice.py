"""What to do about an entry, in a sentence: the table of the guide on disagreements, applied."""

from __future__ import annotations

from tuning_registry.operations.reports.page.report import ReportEntry
from tuning_registry.rendering.html.text import differing, letter, percent
from tuning_registry.wording import count_of


def best_config(one: ReportEntry) -> str | None:
    """The config that should win: the elected one, or the fastest if that is clearly faster and no pin decided."""
    return one.fastest if one.is_slower and not one.is_overridden else one.config


def advice(one: ReportEntry) -> str:
    """What to do, and why."""
    if one.config is None:
        return f"No config: {one.why}. Lift a ban, or record again."
    if one.is_overridden:
        return f"Nothing to do: {one.why}."
    if one.cost is not None and one.cost.failed:
        return (
            f"The elected config fails on {count_of(one.cost.failed, 'rank')} that chose another one. Ban it, or find out "
            "why it fails there."
        )
    return _by_time(one)


def _by_time(one: ReportEntry) -> str:
    """What the timings of all ranks say."""
    if one.fleet is None:
        return "Record with timings to see what this costs." if one.cost else "The ranks agree; there are no timings."
    if one.is_slower:
        return (
            f"{_name(one, one.fastest)} is faster: over all ranks, the elected config takes {percent(one.fleet.percent)} "
            f"more time, beyond the noise of {percent(one.fleet.noise_percent)}. Export with --policy fastest, or pin it."
        )
    pin = "Pin the elected config: over all ranks," if one.cost is not None else "Keep it: over all ranks,"
    if one.fleet.percent <= 0:
        return f"{pin} it has the lowest median time."
    return (
        f"{pin} it is {percent(one.fleet.percent)} slower than {_name(one, one.fastest)}, within the noise of "
        f"{percent(one.fleet.noise_percent)}."
    )


def _name(one: ReportEntry, config: str | None) -> str:
    """A config with its letter, if it was chosen."""
    found = next((candidate for candidate in one.candidates if candidate.config == config), None)
    shown = differing([candidate.config for candidate in one.candidates])[1][config] if config else ""
    return shown if found is None or found.place is None else f"{letter(found.place)} ({shown})"
