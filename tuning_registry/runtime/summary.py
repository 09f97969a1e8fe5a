"""The lines that a job logs when a policy is installed and when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from tuning_registry.locations import shown_url
from tuning_registry.log import warn
from tuning_registry.runtime.choices import Choice, ChoiceLog
from tuning_registry.runtime.job.place import announce
from tuning_registry.runtime.misses import Miss, MissLog
from tuning_registry.runtime.pinning.tables import TableSource
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.runtime.triton.coverage import OUT_OF_SCOPE, counted
from tuning_registry.wording import count_of, list_some

INSTEAD: Final = {
    "timed": "tuned by Triton",
    "error": "launch refused",
}  # what decided misses, if it is called differently elsewhere


def log_start(policy: AutotunePolicy, tables: TableSource) -> None:
    """Log what a policy with its mode resolved will do."""
    place = "" if policy.record_path is None else shown_url(os.fspath(policy.record_path))
    if policy.mode == "record":
        announce("recording to %s", place)
        if policy.split is not None:
            announce("split %s: ranks share the timing, may launch different configs, and cast no votes",
                     policy.split)  # fmt: skip
    elif policy.mode == "off":
        warn("off: nothing is recorded, pinned or watched (mode off, or TUNING_REGISTRY_MODE=off)")
    elif policy.mode == "pinned":
        recorded = "misses and the votes on them" if policy.on_miss == "tune" else "misses"
        announce("pinning from %s%s", tables, f"; recording {recorded} to {place}" if place else "")
    else:
        announce("Triton tunes as usual; nothing is recorded or pinned")
    if policy.mode == "pinned" and policy.on_miss == "tune":
        announce("on_miss is tune: each rank times the keys that the table does not have, so ranks and runs may choose "
                 "differently")  # fmt: skip
    if policy.chaos:
        announce("chaos: ranks get different configs on purpose")


def log_end(
    policy: AutotunePolicy, tables: TableSource, choices: ChoiceLog, misses: MissLog, reached: Mapping[str, str]
) -> None:
    """Log what a policy did. In mode `record`, the recorder logs the recording itself.

    Args:
        policy: With its mode resolved.
        tables: The tables it pinned from.
        choices: The choices under it.
        misses: The misses under it.
        reached: Treatment by kernel, of every kernel of the job that was launched.
    """
    if policy.mode == "off":
        return
    if policy.modules and reached and set(reached.values()) == {OUT_OF_SCOPE}:
        warn("nothing was %s: none of the launched autotuners is in modules=%s; launched: %s",
             "recorded" if policy.mode == "record" else "in scope", ",".join(policy.modules),
             list_some(sorted(reached)))  # fmt: skip
    elif not reached:
        done = {"record": "recorded", "pinned": "pinned"}.get(str(policy.mode), "tuned")
        announce("nothing was %s: no autotuner with several configs was launched", done)
    elif policy.chaos:
        given = sum(choice.source == "chaos" for choice in choices.latest())
        announce("chaos: %s got configs that depend on the rank", count_of(given, "key"))
    elif policy.mode == "auto":
        tuned = sum(choice.kernel in reached for choice in choices.latest())
        announce("Triton tuned %s; nothing was recorded or pinned", count_of(tuned, "key"))
    elif policy.mode == "pinned":
        announce("%s", _pinned(tables, choices, misses))


def _pinned(tables: TableSource, choices: ChoiceLog, misses: MissLog) -> str:
    """How many keys were pinned from which tables, and why the others were not."""
    missed = misses.all()
    hits, keys = pinned_keys(choices.latest(), missed)
    if not keys:
        is_returned = bool(choices.latest())
        return (
            f"nothing was pinned: {'every launch had a single candidate' if is_returned else 'no launch has returned'}"
        )
    used, keys_shown = tables.used(), count_of(len(keys), "key")
    line = f"pinned {len(hits)} of {keys_shown} from {used}" if used else f"pinned 0 of {keys_shown}: no table"
    if not missed:
        return f"{line}; no misses"
    instead = counted(INSTEAD.get(miss.source, miss.source) for miss in missed)
    reasons = counted(miss.reason for miss in missed)
    return f"{line}; {count_of(len(missed), 'miss')}: {reasons}; fallback: {instead}"


def pinned_keys(
    choices: Iterable[Choice], misses: Iterable[Miss]
) -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str]]]:
    """The keys that tables decided, and those that were looked up."""
    hits = {choice.place for choice in choices if choice.source == "table"}
    return hits, hits | {miss.place for miss in misses}
