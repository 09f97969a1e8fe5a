"""Explained entries as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config, title_of
from tuning_registry.model.names import rank_ranges
from tuning_registry.model.packages import GROUP
from tuning_registry.rendering.base import Format, Record, columns_in_use, join_lines, render, render_columns
from tuning_registry.rendering.screen import Paint
from tuning_registry.rendering.votes import entry_title, voters_text
from tuning_registry.rules.audits import class_name
from tuning_registry.wording import count_of, list_some

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.reports.explained import ExplainedConfig, ExplainedEntry
    from tuning_registry.operations.reports.unseen import PredictedLaunch, RankedConfig
    from tuning_registry.rules.audits import AuditedConfig
    from tuning_registry.rules.near_keys import NearKey

_COLUMNS: Final = ("arch", "kernel", "key", "elected", "why", "recordings_on_arch", "stale_recordings", "config", "votes",
                   "total_votes", "ranks", "runs", "median_ms", "timed_by_ranks", "failed_on_ranks",
                   "slower_than_fastest_percent", "banned_by_override", "audit", *GROUP, "decided_by", "nearest_key",
                   "estimated_slower_percent", "slower_on_nearest_percent", "failed_on_nearest", "winner_of")  # fmt: skip
_INDENT: Final = " " * 6
_RANKED: Final = ("config", "estimated_slowdown", "slowdown_on_nearest_key", "winner_of_key")
_SHOWN_RANKED: Final = 5


def render_explained(
    entries: Sequence[ExplainedEntry], style: Format, predicted: Sequence[PredictedLaunch] = ()
) -> str:
    """Entries with everything that is known about them, then predicted launches; the CSV has one line per config."""

    def rows() -> Iterable[Record]:
        empty = dict.fromkeys(_COLUMNS)  # the two kinds have some columns each
        yield from ({**empty, **row} for one in entries for row in _rows(one))
        yield from ({**empty, **row} for launch in predicted for row in _predicted_rows(launch))

    return render(
        style,
        data=lambda: [one.to_dict() for one in (*entries, *predicted)],
        columns=_COLUMNS,
        rows=rows,
        text=lambda: "\n".join([*map(_block, entries), *map(_predicted_block, predicted)]),
    )


def near_key_text(near: NearKey) -> str:
    """A recorded key and the fields that differ: `M=128|...  (M: 96 requested, 128 recorded)`."""
    fields = [
        f"{one.field}: {one.asked or 'none'} requested, {one.recorded or 'none'} recorded" for one in near.differences
    ]
    return printable(f"{near.key}  ({list_some(fields, '; ', shown=2)})")


def _rows(found: ExplainedEntry) -> Iterable[Record]:
    common = found.to_dict()
    for one in found.configs:
        yield {
            **common,
            **one.to_dict(),
            "elected": one.config == found.config,
            "ranks": rank_ranges([rank for ranks in one.voters.values() for rank in ranks]),
            "runs": sorted(one.voters),
        }


def _predicted_rows(launch: PredictedLaunch) -> Iterable[Record]:
    common = launch.to_dict()
    for ranked in common["ranked"] or [{"config": common["config"]}]:
        yield {**common, **ranked, "elected": ranked["config"] == common["config"]}


def _predicted_block(launch: PredictedLaunch) -> str:
    shown = short_config(launch.config) if launch.config else ""
    instead = f"a pinned job launches {shown} ({launch.source}): {launch.why}" if shown else launch.why
    lines = [launch.key, f"{shown}: {launch.why}" if launch.source == "table" else f"no entry; {instead}"]
    if launch.nearest is not None:
        lines.append(f"nearest recorded key: {near_key_text(launch.nearest)}")
    lines += [f"banned for this key: {short_config(text)}" for text in launch.banned]
    text = join_lines([entry_title(launch), *(printable(_INDENT + line) for line in lines)])
    rows = [_predicted_row(one) for one in launch.ranked[:_SHOWN_RANKED]]
    if not rows:
        return text
    table = render_columns(rows, columns_in_use(rows, _RANKED, always=1), _INDENT)
    further = len(launch.ranked) - len(rows)
    more = f"{_INDENT}and {further} more\n" if further else ""
    return text + table + more


def _predicted_row(one: RankedConfig) -> Record:
    nearest = "failed" if one.failed else None if one.nearest_percent is None else f"{one.nearest_percent} %"
    return {
        "config": short_config(one.config),
        "estimated_slowdown": None if one.estimated_percent is None else f"{max(one.estimated_percent, 0):.1f} %",
        "slowdown_on_nearest_key": nearest,
        "winner_of_key": one.winner_of,
    }


def _block(found: ExplainedEntry) -> str:
    entry = found.entry
    shown = short_config(found.config) if found.config else "no config"
    lines = [
        entry.key,
        f"{shown}: {found.why}",
        f"{entry.votes:,} of {count_of(found.recordings, 'recording')} on {entry.arch} voted on it",
    ]
    if found.stale:
        lines.append(f"stale: {count_of(found.stale, 'recording')} chose from other candidates than the newest one")
    for one in found.overrides:
        until = f" until {one.until}" if one.until else ""
        lines.append(
            f"#{one.id} {one.action} of {title_of(one.config)} for {one.key}{until}, {one.author}: {one.reason}"
        )
    lines += [f"{count_of(n, 'recording')} did not vote: {reason}" for reason, n in found.observed.items()]
    text = join_lines([entry_title(entry), *(printable(_INDENT + line) for line in lines)])
    rows = [_row(one, found) for one in found.configs]
    table = render_columns(rows, _shown(found), _INDENT) if rows else ""
    return text + table + _devices(found)


def _shown(found: ExplainedEntry) -> list[str]:
    """The columns of the configs; those about timings only if there are any."""
    is_timed = any(one.timed_by or one.failed_on for one in found.configs)
    has_failed = any(one.failed_on for one in found.configs)
    timed = ["median_ms", "slower_than_fastest", "timed_by", *(["failed_on"] if has_failed else [])] if is_timed else []
    audited = ["bits"] if any(one.audited for one in found.configs) else []
    return ["votes", *timed, *audited, "config", "chosen_by"]


def _row(one: ExplainedConfig, found: ExplainedEntry) -> Record:
    banned = f"  [banned by #{one.banned_by}]" if one.banned_by is not None else ""
    return {
        "votes": f"{one.votes}/{found.entry.votes}",
        "median_ms": None if one.median_ms is None else f"{one.median_ms:.6g}",
        "slower_than_fastest": None if one.slower_percent is None else f"{one.slower_percent:.1f} %",
        "timed_by": count_of(one.timed_by, "rank"),
        "failed_on": count_of(one.failed_on, "rank"),
        "bits": _bits(one.audited),
        "config": short_config(one.config) + banned,
        "chosen_by": voters_text(one.voters),
        "paint": {"config": Paint.CAUTION if banned else Paint.STRONG if one.config == found.config else None},
    }


def _bits(audited: AuditedConfig | None) -> str | None:
    """The class of equal bits of a candidate, and why it needs attention."""
    if audited is None:
        return None
    flags = ["outside the tolerance"] * bool(audited.outside_on) + ["nondeterministic"] * bool(audited.differs_on)
    letter = class_name(audited.number)
    return ", ".join([*([letter] if letter else []), *flags]) or "failed"


def _devices(found: ExplainedEntry) -> str:
    lines = []
    for view in found.devices:
        lines.append(f"{_INDENT}on {view.device or 'an unknown device'}:")
        for text in view.configs:
            median = view.medians_ms.get(text)
            timed = f", {median:.6g} ms" if median is not None else ""
            lines.append(f"{_INDENT}  {short_config(text)}: {count_of(view.votes.get(text, 0), 'vote')}{timed}")
    return join_lines(map(printable, lines))
