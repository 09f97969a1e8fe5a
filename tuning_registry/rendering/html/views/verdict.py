"""The first view: what the page says, in a few sentences and totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tuning_registry.formats.short_configs import short_config
from tuning_registry.html.markup import Child, Markup, element, join
from tuning_registry.operations.reports.costs import CONFLICT, NEAR_TIE, NOT_TIMED
from tuning_registry.operations.reports.page.report import Report, ReportEntry
from tuning_registry.operations.reports.ranks import Rank
from tuning_registry.rendering.html.advice import advice
from tuning_registry.rendering.html.text import named, percent
from tuning_registry.rules.audits import Bits
from tuning_registry.wording import count_of

_SHOWN = 5  # entries or ranks that an answer names


def verdict_view(report: Report) -> Markup:
    """Headline, totals, and the answers to what people ask first."""
    return element(
        "section",
        element("h1", _headline(report)),
        element("p", _summary(report), class_="lead"),
        element("ul", (_tile(*tile) for tile in _totals(report)), class_="tiles"),
        element("dl", (join(element("dt", what), element("dd", answer)) for what, answer in _answers(report))),
        id="verdict",
    )


def _headline(report: Report) -> str:
    split, total = len(report.disagreements), len(report.entries)
    if not total:
        return "No entries"
    if not split:
        return f"All ranks agree on {count_of(total, 'entry')}"
    return f"Ranks disagree on {split:,} of {count_of(total, 'entry')}"


def _summary(report: Report) -> str:
    if not report.entries:
        return "Nothing matches the filters, or nothing was recorded."
    slower = sum(one.is_slower for one in report.entries)
    timed = sum(one.fleet is not None for one in report.entries)
    cost = "Pin one table, and all ranks launch the same configs. " if report.disagreements else ""
    if report.is_mixed:
        cost = (
            "Some keys appear twice: their votes come from several architectures or versions, which never mix. " + cost
        )
    if not timed:
        return cost + "There are no timings, so nothing is known about the cost."
    if not slower:
        return cost + "Over all ranks, no elected config is slower than the fastest one by more than the noise."
    return (
        f"{cost}{count_of(slower, 'elected config')} {'is' if slower == 1 else 'are'} slower than the fastest one by more "
        "than the noise: consider --policy fastest."
    )


def _totals(report: Report) -> Iterator[tuple[str, str, str]]:
    """Number, what it counts, and the anchor of its view."""
    hosts = {column.host for column in report.columns if column.host}
    yield f"{len(report.entries):,}", "entries", "heat-map"
    yield f"{len(report.columns):,}", f"ranks on {count_of(len(hosts), 'host')}" if hosts else "ranks", "fleet"
    yield f"{len(report.with_verdict(CONFLICT)):,}", "conflicts beyond the noise", "costs"
    yield f"{len(report.with_verdict(NEAR_TIE)):,}", "near-ties within the noise", "costs"
    untimed = len(report.with_verdict(NOT_TIMED))
    if untimed:
        yield f"{untimed:,}", "disagreements not timed", "costs"
    yield f"{len(report.fleet.outliers):,}", "outliers among the ranks", "fleet"
    if report.misses:
        yield f"{len(report.misses):,}", "misses of pinned jobs", "gaps"
    if report.comparison is not None:
        yield f"{len(report.comparison.changes):,}", f"changes since {report.comparison.name}", "changes"


def _tile(number: str, what: str, anchor: str) -> Markup:
    return element("li", element("a", element("b", number), " ", what, href=f"#{anchor}"))


def _answers(report: Report) -> Iterator[tuple[str, Child]]:
    conflicts = [one for one in report.disagreements if one.verdict == CONFLICT]
    if conflicts:
        yield "Worst conflict", _worst(conflicts[0])
    slower = sorted((one for one in report.entries if one.is_slower and one.fleet), key=_slowest_first)
    if slower:
        yield "Elected but slower", _entries(slower, lambda one: percent(one.fleet.percent if one.fleet else None))
    ties = report.with_verdict(NEAR_TIE)
    if ties:
        yield "Within the noise", _entries(ties, None)
    dissenting = sorted((rank for rank in report.fleet.ranks if rank.dissenting), key=_most_dissent_first)
    if dissenting:
        yield "Ranks that dissent most", _ranks(dissenting)
    if report.fleet.outliers:
        yield "Outliers", element("a", _outliers(report.fleet.outliers), href="#fleet")
    bits = Counter(one.entry.bits for one in report.disagreements)
    if bits[Bits.EQUAL] or bits[Bits.DIFFERENT]:
        yield "Audits", _audits(bits)
    checked = [value for kernel in report.unseen for value in kernel.left_out]
    if report.unseen:
        yield "Configs for unseen keys", _unseen(report, checked)


def _audits(bits: Mapping[Bits, int]) -> str:
    return (
        f"the configs that ranks chose give different bits in {count_of(bits[Bits.DIFFERENT], 'disagreement')}, equal bits "
        f"in {bits[Bits.EQUAL]:,}; {bits[Bits.UNKNOWN]:,} were not audited"
    )


def _worst(one: ReportEntry) -> Child:
    cost = one.cost.dissenters if one.cost else None
    slow = (
        f" The elected config is {percent(cost.percent)} slower for the {count_of(cost.ranks, 'rank')} that chose otherwise "
        f"(noise {percent(cost.noise_percent)})."
        if cost
        else ""
    )
    elected = [" Elected: ", element("code", short_config(one.config)), "."] if one.config else None
    return [named(one.entry), ".", slow, elected, " ", advice(one)]


def _entries(found: list[ReportEntry], note: object) -> Child:
    parts: list[Child] = []
    for number, one in enumerate(found[:_SHOWN]):
        parts += ["; " if number else None, named(one.entry), f" ({note(one)})" if callable(note) else None]
    more = len(found) - _SHOWN
    return [parts, ["; ", element("a", f"and {more:,} more", href="#heat-map")] if more > 0 else None]


def _ranks(ranks: list[Rank]) -> str:
    runs = {rank.run for rank in ranks}
    most = ranks[0].dissenting / ranks[0].votes
    first = [rank for rank in ranks if rank.votes and rank.dissenting / rank.votes == most]
    names = [f"{rank.rank}" + (f" of {rank.run}" if len(runs) > 1 else "") for rank in first[:_SHOWN]]
    more = f", and {len(first) - _SHOWN:,} more" if len(first) > _SHOWN else ""
    what = "rank" if len(first) == 1 else "ranks"
    each = "" if len(first) == 1 else " each"
    return (
        f"{what} {', '.join(names)}{more}: {ranks[0].dissenting:,} of {ranks[0].votes:,} votes{each} against the "
        "elected config"
    )


def _outliers(ranks: list[Rank]) -> str:
    named_ranks = [f"rank {rank.rank} of {rank.run} ({', '.join(rank.outlier)})" for rank in ranks[:_SHOWN]]
    more = f", and {len(ranks) - _SHOWN:,} more" if len(ranks) > _SHOWN else ""
    return ", ".join(named_ranks) + more


def _unseen(report: Report, checked: list[float]) -> Child:
    tested = (
        f" Leave-one-out test on {count_of(len(checked), 'recorded key')}: {percent(sum(checked) / len(checked))} slower "
        f"than the fastest config on average, {percent(max(checked), 0)} at worst."
        if checked
        else ""
    )
    kernels = count_of(len(report.unseen), "kernel")
    return [
        "A pinned job chooses by the closest recorded keys. ",
        element("a", f"Examples for {kernels}", href="#unseen"),
        ".",
        tested,
    ]


def _slowest_first(one: ReportEntry) -> float:
    return -one.fleet.percent if one.fleet else 0.0


def _most_dissent_first(rank: Rank) -> tuple[float, int]:
    return (-rank.dissenting / rank.votes, -1 if rank.rank is None else rank.rank)
