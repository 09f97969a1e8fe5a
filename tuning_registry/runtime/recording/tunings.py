"""Converting Triton's tuning of a key to the values of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tuning_registry.model.canonical import live_config_text
from tuning_registry.model.records import ALL_FAILED, ECHO, IMPOSSIBLE_TIME, SINGLE_CANDIDATE, Timing
from tuning_registry.runtime.guard import count_fault
from tuning_registry.runtime.triton import watch

# Why a choice of Triton is not a vote.
REASONS: Final[Mapping[str, str]] = {
    watch.ECHO: ECHO,
    watch.SINGLE: SINGLE_CANDIDATE,
    watch.FAILED: ALL_FAILED,
    watch.UNMEASURED: IMPOSSIBLE_TIME,
}
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


def timings_of(measured: Mapping[Any, Any]) -> list[Timing]:
    """Triton's timings as records; of candidates with the same canonical text, the fastest counts."""
    found: dict[str, Timing] = {}
    for candidate, timing in measured.items():
        text = live_config_text(candidate)
        three = list(timing) if isinstance(timing, list | tuple) else [timing] * 3
        if text is None or len(three) != 3:
            continue
        if watch.has_failed(timing):
            found.setdefault(text, Timing(text, None, None, None))
            continue
        median, p20, p80 = (float(number) for number in three)
        if not all(0 < number < float("inf") for number in (median, p20, p80)):
            count_fault("reading a timing", ValueError(f"not a time in ms: {three}"))
            found.setdefault(text, Timing(text, None, None, None))
            continue
        before = found.get(text)
        if before is None or before.median_ms is None or median < before.median_ms:
            found[text] = Timing(text, median, p20, p80)
    return list(found.values())
