"""Explained entries, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import parse_config
from tuning_registry.model.names import rank_ranges
from tuning_registry.rendering.base import (
    GROUP,
    Format,
    entry_group,
    entry_head,
    entry_title,
    join_lines,
    render_columns,
    render_csv,
    render_json,
    voters_text,
)
from tuning_registry.rendering.costs import percent, rounded

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.explain import DeviceView, ExplainedConfig, ExplainedEntry
    from tuning_registry.rules.near_keys import NearKey

_CSV = ("arch", "kernel", "key", "winner", "why", "seen_by", "recordings", "stale", "config", "votes", "of", "ranks", "runs",
        "median_ms", "timed_by", "failed_on", "slower_percent", "banned_by")  # fmt: skip
_INDENT = " " * 6


def render_explained(entries: Sequence[ExplainedEntry], style: Format) -> str:
    """Entries with everything that is known about them; in CSV one line a config."""
    if style is Format.json:
        return render_json([_entry(found) for found in entries])
    if style is Format.csv:
        return render_csv([row for found in entries for row in _csv_rows(found)], [*_CSV, *GROUP])
    return "\n".join(_block(found) for found in entries)


def near_key_text(near: NearKey) -> str:
    """A recorded key and what differs: `M=128|...  (M: 96 here, 128 recorded)`."""
    said = [
        f"{one.field}: {one.asked or 'absent'} here, {one.recorded or 'absent'} recorded" for one in near.differences
    ]
    return printable(f"{near.key}  ({'; '.join(said)})")


def _entry(found: ExplainedEntry) -> dict[str, Any]:
    return {
        **entry_head(found.entry),
        "config": parse_config(found.config) if found.config else None,
        "why": found.why,
        "decided_by": found.decided_by,
        "votes": found.entry.votes,
        "seen_by": found.seen_by,
        "recordings": found.recordings,
        "stale": found.entry.stale,
        "configs": [_config(one) for one in found.configs],
        "overrides": [asdict(one) | {"config": parse_config(one.config)} for one in found.overrides],
        "observed": dict(found.observed),
        "devices": [_device(one) for one in found.devices],
        **entry_group(found.entry),
    }


def _config(one: ExplainedConfig) -> dict[str, Any]:
    return {
        "config": parse_config(one.config),
        "votes": one.votes,
        "runs": {run: list(ranks) for run, ranks in one.voters.items()},
        "median_ms": one.median_ms,
        "timed_by": one.timed_by,
        "failed_on": one.failed_on,
        "slower_percent": rounded(one.slower_percent),
        "banned_by": one.banned_by,
    }


def _device(one: DeviceView) -> dict[str, Any]:
    configs = sorted({*one.votes, *one.medians_ms}, key=lambda text: (-one.votes.get(text, 0), text))
    return {
        "device": one.device or None,
        "configs": [
            {"config": parse_config(text), "votes": one.votes.get(text, 0), "median_ms": one.medians_ms.get(text)}
            for text in configs
        ],
    }


def _csv_rows(found: ExplainedEntry) -> list[dict[str, Any]]:
    common = {**entry_head(found.entry), "why": found.why, "seen_by": found.seen_by, "recordings": found.recordings,
              "stale": found.entry.stale, "of": found.entry.votes, **entry_group(found.entry)}  # fmt: skip
    return [
        {
            **common,
            **_config(one),
            "config": one.config,
            "winner": str(one.config == found.config).lower(),
            "ranks": rank_ranges([rank for ranks in one.voters.values() for rank in ranks]),
            "runs": sorted(one.voters),
        }
        for one in found.configs
    ]


def _block(found: ExplainedEntry) -> str:
    entry = found.entry
    shown = short_config(found.config) if found.config else "no config"
    lines = [
        entry_title(entry),
        printable(_INDENT + entry.key),
        printable(f"{_INDENT}{shown}: {found.why}"),
        f"{_INDENT}seen by {found.seen_by} of {found.recordings} recordings on {printable(entry.arch)}",
    ]
    if entry.stale:
        lines.append(f"{_INDENT}stale: {entry.stale} chose from other candidates than the newest recording of it had")
    for one in found.overrides:
        until = f" until {one.until}" if one.until else ""
        lines.append(
            printable(
                f"{_INDENT}#{one.id} {one.action} of {short_config(one.config)} for {one.key}{until}, {one.author}: {one.reason}"
            )
        )
    lines += [printable(f"{_INDENT}no vote of {count} recording{'s' * (count != 1)}: {reason}")
              for reason, count in found.observed.items()]  # fmt: skip
    table = render_columns([_shown(one, found) for one in found.configs], _columns(found)) if found.configs else ""
    return join_lines(lines) + "".join(_INDENT + line for line in table.splitlines(keepends=True)) + _devices(found)


def _columns(found: ExplainedEntry) -> list[str]:
    is_timed = any(one.timed_by or one.failed_on for one in found.configs)
    has_failed = any(one.failed_on for one in found.configs)
    timed = ["median_ms", "slower", "timed", *(["failed"] if has_failed else [])] if is_timed else []
    return ["votes", *timed, "config", "who"]


def _shown(one: ExplainedConfig, found: ExplainedEntry) -> dict[str, Any]:
    banned = f"  [banned by #{one.banned_by}]" if one.banned_by is not None else ""
    return {
        "votes": f"{one.votes}/{found.entry.votes}",
        "median_ms": None if one.median_ms is None else f"{one.median_ms:.6g}",
        "slower": None if one.slower_percent is None else percent(one.slower_percent),
        "timed": one.timed_by,
        "failed": one.failed_on,
        "config": short_config(one.config) + banned,
        "who": voters_text(one.voters),
    }


def _devices(found: ExplainedEntry) -> str:
    lines = []
    for view in found.devices:
        lines.append(f"{_INDENT}on {view.device or 'an unknown device'}:")
        for text in sorted({*view.votes, *view.medians_ms}, key=lambda text: (-view.votes.get(text, 0), text)):
            median = view.medians_ms.get(text)
            timed = f", {median:.6g} ms" if median is not None else ""
            votes = view.votes.get(text, 0)
            lines.append(f"{_INDENT}  {short_config(text)}: {votes} {'vote' if votes == 1 else 'votes'}{timed}")
    return join_lines(map(printable, lines))
