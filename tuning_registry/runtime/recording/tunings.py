"""Converting Triton's tuning of a key to the values of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import live_config_text
from tuning_registry.model.records import (
    ALL_FAILED,
    ECHO,
    IMPOSSIBLE_TIME,
    SINGLE_CANDIDATE,
    Times,
    Timing,
    measured_times,
)
from tuning_registry.runtime.guard import warn_once
from tuning_registry.runtime.triton import watch

# Why a choice of Triton is not a vote.
REASONS: Final[Mapping[str, str]] = {
    watch.ECHO: ECHO,
    watch.SINGLE: SINGLE_CANDIDATE,
    watch.FAILED: ALL_FAILED,
    watch.UNMEASURED: IMPOSSIBLE_TIME,
}
_NO_NUMBERS: Final = frozenset({"bool", "bool_", "str", "bytes"})  # although `float()` takes them; `bool_` is NumPy's
# Why a choice has no audit, although the policy requests one.
REASONS_WITHOUT_AUDIT: Final[Mapping[str, str]] = {
    watch.ECHO: "Triton read its choice from the disk cache; record with an empty TRITON_CACHE_DIR"
}
NOT_FOLLOWED: Final = "its candidates are known only when they are timed, or the audit failed"


def texts_of(candidates: Iterable[Any]) -> list[str]:
    """The canonical texts of live candidates, sorted, without duplicates; candidates without a text are left out."""
    texts = {live_config_text(candidate) for candidate in candidates}
    return sorted(text for text in texts if text is not None)


def differ_in_hooks(candidates: Iterable[Any]) -> bool:
    """Whether two candidates have the same canonical text and different hooks."""
    hooks: dict[str, Any] = {}
    for candidate in candidates:
        text, hook = live_config_text(candidate), getattr(candidate, "pre_hook", None)
        if text is not None and hooks.setdefault(text, hook) is not hook:
            return True
    return False


def timings_of(kernel: str, measured: Mapping[Any, Any]) -> list[Timing]:
    """Triton's timings as records; of candidates with the same canonical text, the fastest counts.

    A timer may be anybody's. What it gives for a candidate that cannot be a measurement counts as not timed, with one
    warning per kernel.
    """
    found: dict[str, Timing] = {}
    for candidate, timing in measured.items():
        text = live_config_text(candidate)
        if text is None:
            continue
        times = _times(timing)
        if times is None and not watch.has_failed(timing):
            warn_once(("no time", kernel), "%s: the timer gave %.100s for %s, which cannot be median, p20 and p80 in ms; the "
                      "candidate counts as not timed, and does not get a vote", kernel, repr(timing), short_config(text))  # fmt: skip
        before = found.get(text)
        if before is None or before.median_ms is None or (times is not None and times[0] < before.median_ms):
            found[text] = Timing(text, *(times or (None,) * 3))
    return list(found.values())


def _times(timing: Any) -> Times | None:
    """Median, p20 and p80 in ms, as `do_bench` returns them, or one number; None if they cannot be a measurement."""
    numbers = list(timing) if isinstance(timing, list | tuple) else [timing]
    numbers = numbers * 3 if len(numbers) == 1 else numbers
    if len(numbers) != 3 or any(type(number).__name__ in _NO_NUMBERS for number in numbers):
        return None
    try:
        return measured_times([float(number) for number in numbers])
    except (ArithmeticError, RuntimeError, TypeError, ValueError):
        return None
