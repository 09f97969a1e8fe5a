"""Numbers, names and configs as the page words them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Final

from tuning_registry.formats.short_configs import short_config
from tuning_registry.html.markup import Markup, element, join
from tuning_registry.html.text import short_key
from tuning_registry.model.names import bare_name, rank_ranges
from tuning_registry.operations.election.tally import EntryVotes
from tuning_registry.operations.reports.page.report import Column

DASH: Final = "\u2013"  # where there is no value
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXY"
_RANGES_SHOWN: Final = 12  # ranges of ranks that a cell lists


def letter(place: int) -> str:
    """How the page names a choice: A for the elected config, B for the next one, Z for all beyond Y."""
    return _LETTERS[place] if place < len(_LETTERS) else "Z"


def shade(place: int) -> str:
    """The class of a choice's colour; from the sixth on they share one."""
    return "abcdef"[min(place, 5)]


def percent(value: float | None, digits: int = 1) -> str:
    """A percentage, a dash if it is unknown, `fails` if it is infinite."""
    if value is None:
        return DASH
    if not math.isfinite(value):
        return "fails"
    return f"{value:,.{digits}f} %"


def milliseconds(value: float | None) -> str:
    """A time with four significant digits."""
    return DASH if value is None else f"{value:.4g}"


def entry_id(entry: EntryVotes) -> str:
    """The anchor of an entry: equal on every page that has it."""
    text = "\0".join(entry.shape if entry.device else entry.shape[:-1])  # the same as before entries had devices
    return "e-" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:10]


def versions_of(entry: EntryVotes) -> str:
    """Architecture, device and version group: `sm90 Triton 3.6.0 fla 0.6.0`."""
    parts = (entry.arch, entry.device, f"Triton {entry.triton}" if entry.triton else "", entry.package, entry.version)
    return " ".join(filter(None, parts))


def named(entry: EntryVotes, *, link: bool = True, versions: bool = False) -> Markup:
    """Function name and short key of an entry, linked to its details, which have both in full."""
    name = element("b", bare_name(entry.kernel))
    group = f"({versions_of(entry)}) " if versions else None
    key = element("span", group, short_key(entry.key), class_="k")
    return join(element("a", name, href=f"#{entry_id(entry)}") if link else name, " ", key)


def split_of(entry: EntryVotes) -> str:
    """The votes of the choices: `4 : 2 : 1 : 1`."""
    counts = [choice.count for choice in entry.choices if choice.count]
    shown = [f"{count:,}" for count in counts[:5]]
    return " : ".join([*shown, "…"] if len(counts) > 5 else shown)


def differing(configs: Sequence[str]) -> tuple[str, dict[str, str]]:
    """What all configs share, in short form, and the rest of each by its canonical text."""
    shorts = {text: short_config(text) for text in configs}
    parts = {text: short.split(" ") for text, short in shorts.items()}
    shared = set.intersection(*(set(one) for one in parts.values())) if len(parts) > 1 else set()
    rest = {text: " ".join(part for part in one if part not in shared) for text, one in parts.items()}
    first = next(iter(parts.values()), [])
    return " ".join(part for part in first if part in shared), {text: rest[text] or shorts[text] for text in configs}


def rank_name(column: Column, *, with_run: bool) -> str:
    """A rank in words."""
    name = "no rank" if column.rank is None else f"rank {column.rank}"
    host = f" on {column.host}" if column.host else ""
    return f"{name} of {column.run}{host}" if with_run else name + host


def ranks_text(columns: Iterable[Column], *, with_run: bool) -> str:
    """Ranks as people write them: `0-2,5`, with their run if there are several."""
    runs: dict[str, list[int]] = {}
    for column in columns:
        runs.setdefault(column.run, []).append(-1 if column.rank is None else column.rank)
    parts = []
    for run, ranks in runs.items():
        ranges = rank_ranges([rank for rank in ranks if rank >= 0]).split(",")
        some = ", ".join(ranges[:_RANGES_SHOWN]) + (
            f", … ({len(ranks):,} ranks)" if len(ranges) > _RANGES_SHOWN else ""
        )
        parts.append(f"{some} of {run}" if with_run else some)
    return "; ".join(parts)
