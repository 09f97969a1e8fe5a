"""The state of a database as metrics for Prometheus."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tuning_registry.rendering.base import join_lines

PREFIX: Final = "tuning_registry_"
# Each metric is named like the field of `status --format json`; a time becomes `<name>_timestamp_seconds`.
NUMBERS: Final[Mapping[str, str]] = {
    "pending_hand_ins": "Hand-ins that are not folded into votes yet.",
    "refused_hand_ins": "Hand-ins that were refused; registry hand-ins lists the reasons.",
    "runs": "Recorded runs, including withdrawn ones.",
    "withdrawn_runs": "Runs that are withdrawn.",
    "recordings": "Recordings of ranks, without superseded ones.",
    "superseded_recordings": "Recordings that a later one has replaced.",
    "entries": "Distinct combinations of architecture, kernel and key.",
    "configs": "Distinct configs.",
    "votes": "Votes that count.",
    "timings": "Timings of candidates that count.",
    "observations": "Observations that count.",
    "curated_choices": "Choices from files that somebody committed.",
    "kernels_with_mixed_code": "Kernels that ranks of one run recorded from different code.",
    "untimed": "Entries of shared recordings with candidates that no rank has timed.",
}
TIMES: Final[Mapping[str, str]] = {
    "oldest_pending_hand_in": "When the oldest pending hand-in arrived; absent if none is pending.",
    "last_ingest": "When a recording was last stored; absent if there is none.",
    "last_export": "When a table was last exported; absent if none was.",
}
_FACTS: Final = ("revision", "required_revision", "engine")
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render_metrics(status: Mapping[str, object]) -> str:
    """Metrics in Prometheus's text format: numbers and times as gauges, revisions as labels of one `info` metric.

    Args:
        status: From `describe_status`.
    """
    database = _labels({"database": status["database"]})
    facts = {name: status[name] or "" for name in _FACTS if name in status}
    blocks = [
        _gauge("info", "Schema revisions and database server; always 1.", _labels({"database": status["database"], **facts}), 1)
    ]  # fmt: skip
    for name, text in NUMBERS.items():
        found = status.get(name)
        number = len(found) if isinstance(found, list) else found
        if isinstance(number, int):
            blocks.append(_gauge(name, text, database, number))
        elif name == "untimed" and "runs" in status:  # left out of the status if there are none
            blocks.append(_gauge(name, text, database, 0))
    for name, text in TIMES.items():
        seconds = _seconds(status.get(name))
        if seconds is not None:
            blocks.append(_gauge(f"{name}_timestamp_seconds", text, database, seconds))
    return join_lines(line for block in blocks for line in block)


def _seconds(moment: object) -> float | None:
    """A time in seconds since 1970. None if there is none: whoever may hand in can state anything as its time."""
    try:
        return dt.datetime.fromisoformat(str(moment)).timestamp()
    except (ValueError, OverflowError):
        return None


def _gauge(name: str, text: str, labels: str, value: float) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {text}"
    yield f"# TYPE {PREFIX}{name} gauge"
    yield f"{PREFIX}{name}{labels} {value!r}"


def _labels(values: Mapping[str, object]) -> str:
    pairs: Iterable[str] = (f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in values.items())
    return "{" + ",".join(pairs) + "}"
