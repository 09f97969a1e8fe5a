"""The details of every entry: its candidates, their votes, and their times on every rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tuning_registry.html.markup import Child, Markup, element
from tuning_registry.html.tables import badge, section
from tuning_registry.operations.reports.audits import findings_of
from tuning_registry.operations.reports.page.report import UNANIMOUS, Candidate, Column, Report, ReportEntry, by_place
from tuning_registry.rendering.html.advice import advice
from tuning_registry.rendering.html.svg import axis, axis_labels, times_strip
from tuning_registry.rendering.html.text import (
    differing,
    entry_id,
    letter,
    milliseconds,
    named,
    percent,
    ranks_text,
    shade,
    split_of,
)
from tuning_registry.rules.audits import AuditedConfig, Bits
from tuning_registry.wording import count_of

_FAR = 1.6  # times the fastest candidate, from which those that nobody chose share a row
_LEAST_FAR = 3
_OPEN = 24  # disagreements up to which all are open


def entries_view(report: Report) -> Markup | None:
    """A block per entry, which can be opened, and linked by its anchor."""
    if not report.entries:
        return None
    opens = len(report.disagreements) <= _OPEN
    dots = any(candidate.by_rank for one in report.entries for candidate in one.candidates)
    spread = (
        "Each dot is the median time of a rank, with a line from its 20th to its 80th percentile."
        if dots
        else "The line spans the ranks' medians, the box their 20th to 80th percentile, and the tick is their median."
    )
    return section(
        "entries",
        "Entries and their candidates",
        f"Candidates of an entry with their times relative to the fastest one, on the same scale for every entry. {spread} "
        "★ is the elected config.",
        axis_labels(),
        element(
            "div",
            (
                _entry(
                    one, report.columns, number, is_open=opens and one.verdict != UNANIMOUS, versions=report.is_mixed
                )
                for number, one in enumerate(report.entries)
            ),
            class_="entries",
        ),
    )


def _entry(one: ReportEntry, columns: Sequence[Column], number: int, *, is_open: bool, versions: bool) -> Markup:
    entry, anchor = one.entry, entry_id(one.entry)
    return element(
        "details",
        element(
            "summary",
            badge(one.verdict),
            " ",
            named(entry, link=False, versions=versions),
            element("span", split_of(entry), class_="split"),
        ),
        element("p", element("a", "Link to this entry", href=f"#{anchor}"), class_="self"),
        element("p", element("code", entry.kernel), element("br"), element("code", entry.key), class_="full"),
        element("p", element("b", "Why: "), one.why, ". ", element("b", "What to do: "), advice(one), class_="why"),
        element("p", _stale_text(one), class_="why") if one.is_stale else None,
        element("p", f"Audits: the configs that ranks chose give {entry.bits} bits.", class_="why")
        if one.cost is not None and entry.bits is not Bits.UNKNOWN
        else None,
        _candidates(one, columns) if one.candidates else None,
        id=anchor,
        class_="f entry",
        data_e=number,
        data_v=one.verdict,
        open=is_open,
    )


def _stale_text(one: ReportEntry) -> str:
    return f"Stale: {'; '.join(stale_reasons(one))}."


def stale_reasons(one: ReportEntry) -> list[str]:
    """Why an entry is stale, in words."""
    reasons = []
    if one.newest:
        triton, package, version = one.newest
        parts = [f"Triton {triton or 'not stated'}", f"{package} {version}" if package else ""]
        reasons.append(f"not recorded with the versions of the newest recording ({', '.join(filter(None, parts))})")
    if one.stale:
        reasons.append(f"{count_of(one.stale, 'recording')} chose from other candidates than the newest one")
    return reasons


def _candidates(one: ReportEntry, columns: Sequence[Column]) -> Markup:
    shared, texts = differing([candidate.config for candidate in one.candidates])
    fastest = min((c.median_ms for c in one.candidates if c.median_ms is not None), default=math.inf)
    timed = math.isfinite(fastest)
    with_run = len({column.run for column in columns}) > 1
    chosen = by_place(columns, one.chosen)
    far = [c for c in one.candidates if c.place is None and (c.median_ms or math.inf) > _FAR * fastest] if timed else []
    far = far if len(far) >= _LEAST_FAR else []
    caption = f"{count_of(len(one.candidates), 'candidate')}" + (f", all with {shared}" if shared else "")
    headings: list[Child] = ["", "Config", "Votes", "Ranks"]
    if timed:
        headings += ["Median ms", "Slower by", axis()]
    is_audited = any(candidate.audited for candidate in one.candidates)
    headings += ["Equal bits"] if is_audited else []
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element(
                "thead",
                element(
                    "tr",
                    (element("th", text, scope="col") if text else element("td") for text in headings),
                ),
            ),
            element(
                "tbody",
                (
                    _candidate(
                        candidate,
                        texts[candidate.config],
                        ranks_text((columns[n] for n in chosen.get(candidate.place, ())), with_run=with_run)
                        if candidate.place is not None
                        else "",
                        fastest if timed else None,
                        is_elected=candidate.config == one.config,
                        is_audited=is_audited,
                    )
                    for candidate in one.candidates
                    if candidate not in far
                ),
                _far(far, texts, fastest) if far else None,
            ),
            class_="cand",
        ),
        class_="scroll",
        tabindex=0,
        role="group",
        aria_label="Candidates",
    )


def _candidate(
    one: Candidate, text: str, ranks: str, fastest_ms: float | None, *, is_elected: bool, is_audited: bool
) -> Markup:
    mark: Child = None
    if one.place is not None:
        mark = element("span", letter(one.place), class_=f"l {shade(one.place)}")
    notes = [note for note, holds in (("★", is_elected), ("banned", one.is_banned)) if holds]
    cells = [
        element("td", mark),
        element("th", text or "(no parameters)", "".join(f" {note}" for note in notes), scope="row"),
        element("td", one.votes or None),
        element("td", ranks or None),
    ]
    if fastest_ms is not None:
        slower = None if one.median_ms is None else 100 * (one.median_ms / fastest_ms - 1) if fastest_ms > 0 else 0.0
        figure = "fastest" if slower == 0 else percent(slower) if slower is not None else _failed(one)
        if one.failed_on and slower is not None:
            figure += f", {_failed(one)}"
        cells += [
            element("td", milliseconds(one.median_ms)),
            element("td", figure),
            element("td", times_strip(one, fastest_ms)),
        ]
    cells += [element("td", _bits(one.audited))] if is_audited else []
    return element("tr", cells, class_="won" if is_elected else None)


def _bits(audited: AuditedConfig | None) -> str:
    """The class of equal bits of a candidate's results, as a number since letters are choices; and what is wrong."""
    if audited is None:
        return "not audited"
    found = [] if audited.number is None else [f"class {audited.number + 1}"]
    return ", ".join([*found, *findings_of(audited)]) or "failed"


def _far(candidates: Sequence[Candidate], texts: Mapping[str, str], fastest_ms: float) -> Markup:
    """Candidates that nobody chose and that are far slower than the fastest one, in one row."""
    parts = [
        f"{texts[one.config]} " + (_failed(one) if one.median_ms is None else f"{one.median_ms / fastest_ms:.2g}×")  # noqa: RUF001
        for one in candidates
    ]
    return element("tr", element("td"), element("td", f"Far slower: {'; '.join(parts)}", colspan=6, class_="far"))


def _failed(one: Candidate) -> str:
    return f"✕ failed on {count_of(one.failed_on, 'rank')}" if one.failed_on else "not timed"
