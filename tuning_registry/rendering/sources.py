"""Comparisons of curated choices, and the known formats, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.rendering.base import Format, Record, join_lines, render, render_columns
from tuning_registry.rendering.markdown import markdown_page, markdown_table
from tuning_registry.wording import count_of

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.reports.between import DifferingEntry, SourceComparison

_ENTRY: Final = ("arch", "device", "kernel", "key")
_COLUMNS: Final = (*_ENTRY, "config", "sources", "files")
_FORMAT: Final = ("name", "reads", "writes", "package", "title")


def render_comparison(found: SourceComparison, style: Format) -> str:
    """Every entry for which compared files chose different configs, with the sources behind each."""
    return render(
        style,
        data=found.to_dict,
        columns=_COLUMNS,
        rows=lambda: (row for one in found.differing for row in _rows(one)),
        text=lambda: "\n".join(map(_block, found.differing)),
        markdown=lambda: markdown_page(
            comparison_text(found),
            markdown_table([row for one in found.differing for row in _rows(one)], _COLUMNS),
        ),
    )


def comparison_text(found: SourceComparison) -> str:
    """The result in one line."""
    groups = count_of(found.files, "pair" if found.between == "source" else "file")
    what = {
        "source": f"differ between sources, in {groups} of files for the same shapes",
        "version": f"changed with the version of the project, in {groups} that several versions ship",
        "triton": f"changed with the Triton version, in {groups} for several versions",
    }[found.between]
    same = f"; {found.identical:,} of them identical" if found.identical else ""
    return f"{len(found.differing):,} of {count_of(found.compared, 'entry')} {what}{same}"


def _rows(one: DifferingEntry) -> Iterable[Record]:
    names = {name: getattr(one, name) for name in _ENTRY}
    for choice in one.choices:
        yield {**names, "config": choice.config, "sources": list(choice.sources), "files": list(choice.files)}


def _block(one: DifferingEntry) -> str:
    shown = [printable(short_config(choice.config)) for choice in one.choices]
    width = max(map(len, shown))
    return join_lines(
        [
            printable("  ".join(filter(None, (one.arch, one.device, one.kernel)))),
            "      " + printable(one.key),
            *(
                f"       {text:<{width}}  {printable('; '.join(choice.sources))}"
                for text, choice in zip(shown, one.choices, strict=True)
            ),
        ]
    )


def render_formats(found: Sequence[Mapping[str, Any]], style: Format) -> str:
    """Every known format: what it reads and writes, and which package it belongs to."""
    shown = [{**row, "reads": _yes(row["reads"]), "writes": _yes(row["writes"])} for row in found]
    return render(
        style,
        data=lambda: list(found),
        columns=_FORMAT,
        rows=lambda: found,
        text=lambda: render_columns(shown, _FORMAT) if shown else "",
    )


def _yes(holds: bool) -> str:
    return "yes" if holds else "-"
