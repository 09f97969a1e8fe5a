"""The page about a pinned job: which keys its table decided, what decided the others, and what escaped pinning."""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tuning_registry.errors import FileError
from tuning_registry.formats.files import write_atomically
from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.short_configs import short_config
from tuning_registry.html.document import render_document
from tuning_registry.html.markup import Child, Markup, element, join
from tuning_registry.html.tables import cell, heading, section, table
from tuning_registry.html.text import short_key
from tuning_registry.log import warn
from tuning_registry.model.names import bare_name
from tuning_registry.runtime.choices import Choice, ChoiceLog
from tuning_registry.runtime.job.devices import loaded_torch
from tuning_registry.runtime.job.place import Place, announce, current_place, host_name, stated_run
from tuning_registry.runtime.pinning.decision import table_size
from tuning_registry.runtime.pinning.tables import TableSource
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.runtime.summary import INSTEAD, pinned_keys
from tuning_registry.runtime.triton.coverage import CoverageReport
from tuning_registry.wording import count_of

_VIEWS: Final = (
    ("Summary", "summary"),
    ("Misses", "misses"),
    ("Not covered", "not-covered"),
    ("Other keys", "pinned"),
    ("Policy and faults", "job"),
)


@dataclass(frozen=True, slots=True)
class JobReport:
    """What the page shows: one rank's part of a pinned job.

    Attributes:
        policy: With its mode resolved.
        place: Rank and world size.
        tables: Name and value of what identifies each table that was used: file, size, digests.
        choices: The latest choice of each entry.
        choice_digest: Their digest.
        coverage: Gaps, misses and faults.
        facts: Name and value of what else identifies the job: run, host, versions; empty if it is not known.
    """

    policy: AutotunePolicy
    place: Place
    tables: tuple[tuple[str, str], ...]
    choices: tuple[Choice, ...]
    choice_digest: str
    coverage: CoverageReport
    facts: tuple[tuple[str, str], ...]


def write_page(
    file: Path, policy: AutotunePolicy, tables: TableSource, choices: ChoiceLog, coverage: CoverageReport
) -> None:
    """Write the page of a pinned job that ends; if its file cannot be written, log one warning.

    Args:
        file: The page, written whole or not at all.
        policy: With its mode resolved.
        tables: The tables it pinned from.
        choices: The choices under it.
        coverage: The coverage report at its end.
    """
    report = JobReport(
        policy,
        current_place(),
        tuple(_described(tables)),
        tuple(choices.latest()),
        choices.digest(),
        coverage,
        tuple(_facts(policy)),
    )
    page = render_page(report, dt.datetime.now(dt.UTC))
    try:
        # A FIFO would hold up the end of the job until somebody reads it.
        if file.exists() and not file.is_file():
            raise FileError(f"{file}: is not a regular file")
        write_atomically(file, page.encode())
    except (FileError, OSError) as error:
        warn("the report of this job was not written: %s. Set report_html to a file that rank 0 can write.", error)
    else:
        announce("wrote the report of this job to %s", file)


def _described(tables: TableSource) -> Iterator[tuple[str, str]]:
    for arch, file, digest, selection_digest in tables.loaded():
        yield f"Table for {arch}", f"{file}: {table_size(tables.table(arch))}"
        yield "Selection digest", selection_digest
        yield "Digest of the file", digest


def _facts(policy: AutotunePolicy) -> Iterator[tuple[str, str]]:
    yield "Run", stated_run(policy.run) or ""
    yield "Host of this rank", host_name()
    yield "Triton", installed_triton()
    yield "PyTorch", str(getattr(loaded_torch(), "__version__", ""))
    # Not an import: it would look like one of the database half, which the package imports when it is asked for.
    yield "tuning-registry", str(getattr(sys.modules["tuning_registry"], "__version__", ""))


def render_page(report: JobReport, made_at: dt.datetime) -> str:
    """The page as one HTML document. It loads nothing and runs only its own script.

    Args:
        report: What to show.
        made_at: Aware time that the page states.
    """
    main = (_summary(report), _misses(report), _not_covered(report), _pinned(report), _job(report))
    when = made_at.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    footer = element("p", f"Generated on {when} by tuning-registry, at the end of the job.")
    run = next((value for name, value in report.facts if name == "Run" and value), "")
    return render_document(f"Pinned job: {run}" if run else "Pinned job", "Pinned job", _VIEWS, main, footer)


def _summary(report: JobReport) -> Markup:
    coverage = report.coverage
    hits, keys = pinned_keys(report.choices, coverage.misses)
    nearest = sum(miss.source == "nearest" for miss in coverage.misses)
    others = len(coverage.misses) - nearest
    gaps, faults = len({kernel for kernel, _ in coverage.not_covered}), sum(coverage.faults.values())
    tiles = (
        (len(hits), "from the table", "pinned"),
        (nearest, "from the nearest recorded keys", "misses"),
        (others, "other miss" if others == 1 else "other misses", "misses"),
        (gaps, "kernel not covered" if gaps == 1 else "kernels not covered", "not-covered"),
        (faults, "fault" if faults == 1 else "faults", "job"),
    )
    return element(
        "section",
        element("h1", _headline(len(hits), len(keys))),
        element("p", _lead(report), class_="lead"),
        element("ul", (_tile(*one) for one in tiles), class_="tiles"),
        element("dl", (join(element("dt", what), element("dd", value)) for what, value in _identity(report))),
        id="summary",
    )


def _headline(hits: int, keys: int) -> str:
    if not keys:
        return "Nothing was pinned"
    return f"The table decided {'all ' if hits == keys else f'{hits:,} of '}{count_of(keys, 'key')}"


def _lead(report: JobReport) -> str:
    if report.policy.chaos:
        return "Chaos: this job gave its ranks different configs on purpose."
    sentences = []
    if report.coverage.misses:
        instead = Counter(INSTEAD.get(miss.source, miss.source) for miss in report.coverage.misses)
        counts = ", ".join(f"{count:,} {name}" for name, count in instead.most_common())
        sentences.append(f"{count_of(len(report.coverage.misses), 'key')} missed: {counts}.")
    if report.coverage.not_covered:
        sentences.append("Some kernels are not covered, so their configs may differ between ranks.")
    if not sentences:
        sentences.append("There were no misses, and no launch that escaped pinning is known.")
    return " ".join(sentences)


def _tile(count: int, what: str, anchor: str) -> Markup:
    return element("li", element("a", element("b", f"{count:,}"), what, href=f"#{anchor}"))


def _identity(report: JobReport) -> Iterator[tuple[str, str]]:
    yield from report.tables or [("Table", "none was used")]
    size = report.place.world_size
    several = f"{report.place.rank} of {size or 'an unknown number'}; other ranks may have launched other keys"
    yield "Rank", "0 of 1" if size == 1 else several
    yield from ((name, value) for name, value in report.facts if value)


def _misses(report: JobReport) -> Markup:
    misses = report.coverage.misses
    configs = {choice.place: choice.config for choice in report.choices}
    rows = (
        _row(
            miss.arch, miss.kernel, miss.key, cell(miss.reason), cell(INSTEAD.get(miss.source, miss.source)),
            _code(short_key(miss.nearest), miss.nearest), _config(configs.get(miss.place, "")),
        )
        for miss in misses
    )  # fmt: skip
    columns = ("Reason", "Decided by", "Nearest recorded key", "Config")
    return section(
        "misses",
        "Misses",
        "Keys that the table did not decide, and what decided instead. Record them, and export the table again.",
        _key_table("Keys that the table did not decide", columns, rows) if misses else element("p", "No key missed."),
    )


def _not_covered(report: JobReport) -> Markup:
    gaps = report.coverage.not_covered
    rows = (element("tr", element("th", _kernel(kernel), scope="row"), cell(why)) for kernel, why in gaps)
    found = table("Kernels that are not covered", [heading("Kernel"), heading("Why")], rows, class_="sortable")
    return section(
        "not-covered",
        "Not covered",
        "Kernels whose launches this policy did not pin or did not see.",
        found if gaps else element("p", "No launch is known to have escaped pinning."),
    )


def _pinned(report: JobReport) -> Markup:
    missed = {miss.place for miss in report.coverage.misses}
    others = [choice for choice in report.choices if choice.place not in missed]
    rows = (
        _row(choice.arch, choice.kernel, choice.key, cell(choice.source), _config(choice.config)) for choice in others
    )
    return section(
        "pinned",
        "Other keys",
        "What was launched for every other key. A table entry decided those that say table.",
        _key_table("Launched configs", ("Decided by", "Config"), rows) if others else element("p", "None."),
    )


def _job(report: JobReport) -> Markup:
    faults = sorted(report.coverage.faults.items())
    facts = [
        ("Policy", repr(report.policy)),
        ("Choice digest", report.choice_digest),
        *((f"Faults while {kind}", f"{count:,}; the log has the first one") for kind, count in faults),
    ]
    rows = (element("tr", element("th", what, scope="row"), cell(value)) for what, value in facts)
    columns = [heading("What", sorts=False), heading("Value", sorts=False)]
    return section("job", "Policy and faults", "", table("About this job", columns, rows))


def _key_table(caption: str, columns: Iterable[str], rows: Iterable[Markup]) -> Markup:
    headings = [heading("Kernel"), heading("Key"), heading("Architecture"), *map(heading, columns)]
    return table(caption, headings, rows, class_="sortable")


def _row(arch: str, kernel: str, key: str, *cells: Child) -> Markup:
    return element(
        "tr", element("th", _kernel(kernel), scope="row"), _code(short_key(key) or "(none)", key), cell(arch), *cells
    )


def _kernel(kernel: str) -> Markup:
    name = bare_name(kernel)
    module = kernel.removesuffix(name).rstrip(".")
    return join(element("b", name), element("span", " ", module, class_="k") if module else None)


def _code(shown: str, whole: str) -> Markup:
    return cell(element("span", shown, class_="k", title=whole))


def _config(text: str) -> Markup:
    return _code(short_config(text), text) if text else cell("")
