"""Winners and disagreements as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.names import rank_ranges
from tuning_registry.model.packages import GROUP
from tuning_registry.rendering.base import Format, Record, join_lines, render_results
from tuning_registry.rendering.markdown import markdown_page, markdown_table
from tuning_registry.rendering.screen import SCREEN, Paint, columns_of, pad, paint
from tuning_registry.wording import count_of

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.election.tally import ConfigVotes, EntryVotes, Winner
    from tuning_registry.operations.reports.unseen import PredictedLaunch

_TIE: Final = "tie: decided by config text"
_LONGEST_RANKS: Final = 60  # characters of a rank list in a table; more on a wide screen
_BEFORE_RANKS: Final = 100  # columns of a wide screen that are for other things
_WINNER: Final = ("arch", "kernel", "key", "config", "votes", "total_votes", "tie", "decided_by", "banned_configs",
                  "stale_recordings", *GROUP)  # fmt: skip
_DISAGREEMENT: Final = (
    "arch",
    "kernel",
    "key",
    "config",
    "votes",
    "total_votes",
    "ranks",
    "runs",
    "tie",
    "sources",
    "bits",
    *GROUP,
)
# Of tables in Markdown.
ENTRY_COLUMNS: Final = ("arch", "kernel", "key", "notes")
CHOICE_COLUMNS: Final = ("config", "votes", "chosen_by", *GROUP)


def render_winners(entries: Sequence[Winner], style: Format) -> str:
    """Every entry with its elected config and its support."""
    return render_results(entries, style, _WINNER, _winners_text, lambda entry: [entry.row()])


def _winners_text(entries: Sequence[Winner]) -> str:
    lines: list[str] = []
    title = ""
    for entry in entries:
        if title != entry_title(entry):
            title = entry_title(entry)
            lines += ["", title]
        support = f"{entry.choices[0].count}/{entry.votes}"
        lines.append("      " + printable(entry.key))
        config = paint(printable(short_config(entry.config)), Paint.STRONG)
        lines.append(f"{support:>7}  {config}{_marks(entry)}")
    return join_lines(lines[1:])


def _marks(entry: Winner) -> str:
    """Marks of an entry that is not decided by the majority alone."""
    marks = [
        _TIE if entry.is_tie else "",
        {"majority": "", "pin": "pinned"}.get(entry.decided_by, entry.decided_by),
        f"{count_of(entry.banned, 'config')} banned" if entry.banned else "",
        f"stale: {count_of(entry.stale, 'recording')} chose from other candidates" if entry.stale else "",
    ]
    return "".join(_mark(mark) for mark in marks if mark)


def render_disagreements(entries: Sequence[EntryVotes], style: Format, heading: str = "") -> str:
    """Every entry on which ranks disagree: each config with its votes and the ranks behind it.

    Args:
        entries: The entries.
        style: The format.
        heading: The first line of the Markdown.
    """

    def markdown(found: Sequence[EntryVotes]) -> str:
        rows = [row for entry in found for row in choice_rows(entry)]
        return markdown_page(heading, markdown_table(rows, (*ENTRY_COLUMNS, *CHOICE_COLUMNS), sentences={"notes"}))

    return render_results(entries, style, _DISAGREEMENT, lambda found: "\n".join(map(_block, found)), _rows, markdown)


def choice_rows(entry: EntryVotes) -> Iterable[Record]:
    """One row per config; only the first one names the entry."""
    notes = "; ".join(note for note, _ in _notes(entry))
    names = {**entry.head(), **entry.versions(), "notes": notes}
    for place, choice in enumerate(entry.choices):
        yield {
            **(dict.fromkeys(names, "") if place else names),
            "config": choice.config,
            "votes": f"{choice.count}/{entry.votes}",
            "chosen_by": voters_text(choice.voters),
        }


def _rows(entry: EntryVotes) -> Iterable[Record]:
    common = {**entry.head(), "total_votes": entry.votes, "tie": entry.is_tie, "sources": entry.sources,
              "bits": str(entry.bits),
              **entry.versions()}  # fmt: skip
    for choice in entry.choices:
        yield {
            **common,
            "config": choice.config,
            "votes": choice.count,
            "ranks": rank_ranges(choice.ranks),
            "runs": sorted(choice.voters or {}),
        }


def _block(entry: EntryVotes) -> str:
    width = configs_width(entry.choices)
    return join_lines(
        [
            entry_title(entry),
            "      " + printable(entry.key) + entry_marks(entry),
            *(choice_line(choice, width, is_elected=place == 0) for place, choice in enumerate(entry.choices)),
        ]
    )


def configs_width(choices: Sequence[ConfigVotes]) -> int:
    """How many columns the longest config takes."""
    return max(columns_of(printable(short_config(choice.config))) for choice in choices)


def choice_line(choice: ConfigVotes, width: int, *, is_elected: bool) -> str:
    """A config with its votes and the ranks behind it; the columns are `width` apart."""
    config = pad(printable(short_config(choice.config)), width, Paint.STRONG if is_elected else None)
    return f"{choice.count:>5}  {config}  {printable(voters_text(choice.voters))}"


def entry_title(entry: EntryVotes | PredictedLaunch) -> str:
    """Arch and kernel, and the version group if it is known."""
    versions = [
        entry.device,
        f"triton {entry.triton}" if entry.triton else "",
        f"{entry.package} {entry.version}".strip(),
    ]
    group = " ".join(filter(None, versions))
    return printable(f"{entry.arch}  {entry.kernel}" + (f"  ({group})" if group else ""))


def entry_marks(entry: EntryVotes) -> str:
    """What is to know about an entry's votes, as marks behind its key."""
    return "".join(_mark(note, style) for note, style in _notes(entry))


def _notes(entry: EntryVotes) -> Iterable[tuple[str, Paint | None]]:
    """What is to know about an entry's votes: whether its text decided, their code differs, or audits compared them."""
    if entry.is_tie:
        yield _TIE, Paint.CAUTION
    if entry.sources > 1:
        yield f"{entry.sources} versions of its code", Paint.CAUTION
    if entry.bits != "unknown":
        yield f"{entry.bits} bits", None


def _mark(text: str, style: Paint | None = Paint.CAUTION) -> str:
    return "  " + paint(f"[{text}]", style)


def voters_text(voters: Mapping[str, Sequence[int]] | None) -> str:
    """The ranks that chose a config, as people write them: `ranks 0-2,5 of job-4711`."""
    parts, longest = [], max(_LONGEST_RANKS, (SCREEN.get().width or 0) - _BEFORE_RANKS)
    for run, ranks in (voters or {}).items():
        if not ranks:  # a project's curated choices
            parts.append(run)
            continue
        shown = rank_ranges(ranks)
        if len(shown) > longest:
            shown = f"{shown[:longest].rpartition(',')[0]},... ({len(ranks)} ranks)"
        parts.append(f"{'ranks' if len(ranks) > 1 else 'rank'} {shown} of {run}")
    return "; ".join(parts)


def spelling_note(texts: Iterable[str]) -> str:
    """The note about configs that differ in spelling alone."""
    shown = ", ".join(short_config(text) for text in texts)
    return f"note: Triton cannot tell these configs apart, but their votes are counted separately: {shown}"
