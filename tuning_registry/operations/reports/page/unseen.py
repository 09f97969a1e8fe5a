"""What unseen keys get: the launches that a table predicts, for missed keys and for examples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tuning_registry.formats.table import TunedTable
from tuning_registry.formats.table_evidence import encode_kernel, evidence_object
from tuning_registry.model.names import ANY_KEY, split_key
from tuning_registry.model.slowdowns import FAILED, Slowdowns, slowdowns_of
from tuning_registry.operations.reports.misses import MissedEntry
from tuning_registry.operations.reports.page.report import UnseenKey, UnseenKeys
from tuning_registry.operations.reports.unseen import predict_launch, table_of_kernel
from tuning_registry.rules.nearest import RecordedKeys
from tuning_registry.rules.overrides import Overrides

_MOST_MISSED: Final = 20  # missed keys of one kernel that a page shows
_MOST_LEFT_OUT: Final = 8  # recorded keys of one kernel that are left out in turn
_MOST_TESTED: Final = 500  # recorded keys up to which a kernel is tested: each test prepares all of them
_SIZE: Final = re.compile(r"([^=\\]+)=([1-9][0-9]{0,9})")


@dataclass(slots=True)
class KernelKeys:
    """The recorded keys of a kernel: the winner of each, and the median in ms of each of its timed configs."""

    winners: dict[str, str] = field(default_factory=dict)
    medians: dict[str, Mapping[str, float]] = field(default_factory=dict)


def what_unseen_keys_get(
    kernels: Mapping[tuple[str, str], KernelKeys], missed: Iterable[MissedEntry], overrides: Overrides
) -> list[UnseenKeys]:
    """What keys without votes get, for each kernel with a winner, sorted by architecture and kernel.

    Args:
        kernels: The kernels, by architecture and name.
        missed: Entries without votes that pinned jobs asked for.
        overrides: The overrides in force.
    """
    asked: dict[tuple[str, str], dict[str, int]] = {}
    for miss in missed:
        keys = asked.setdefault((miss.arch, miss.kernel), {})
        keys[miss.key] = max(miss.ranks, keys.get(miss.key, 0))
    return [
        _unseen(*place, kernel, asked.get(place, {}), overrides)
        for place, kernel in sorted(kernels.items())
        if kernel.winners
    ]


def _unseen(
    arch: str, kernel: str, recorded: KernelKeys, missed: Mapping[str, int], overrides: Overrides
) -> UnseenKeys:
    slowdowns = {
        key: slowdowns_of(medians)
        for key, medians in recorded.medians.items()
        if len(medians) > 1 and any(map(math.isfinite, medians.values()))
    }
    evidence = evidence_object({kernel: encode_kernel(kernel, slowdowns)}) if slowdowns else {}
    table = table_of_kernel(arch, kernel, recorded.winners, evidence, overrides)
    keys = [key for key in recorded.winners if key != ANY_KEY]
    shown = dict(sorted(missed.items(), key=lambda item: (-item[1], item[0]))[:_MOST_MISSED])
    shown |= {key: 0 for key in _examples(keys) if key not in missed}
    return UnseenKeys(
        arch=arch,
        kernel=kernel,
        recorded=len(keys),
        any_key=recorded.winners.get(ANY_KEY),
        keys=tuple(_predicted(table, kernel, key, ranks) for key, ranks in shown.items()),
        left_out=_leave_out(recorded.winners, slowdowns),
    )


def _predicted(table: TunedTable, kernel: str, key: str, missed_by: int) -> UnseenKey:
    launch = predict_launch(table, kernel, key)
    return UnseenKey(key=key, missed_by=missed_by, config=launch.config, nearest=launch.nearest)


def _examples(keys: Sequence[str]) -> list[str]:
    """A key between the two largest recorded sizes and one beyond, made from the first size in which keys differ.

    If all sizes are equal, the first size is doubled.
    """
    fields = [split_key(key) for key in keys]
    lengths = {len(one) for one in fields}
    if len(lengths) != 1:
        return []
    sizes = [
        (place, {int(match[2]) for match in column if match})
        for place in range(lengths.pop())
        if all(column := [_SIZE.fullmatch(one[place]) for one in fields])
    ]
    if not sizes:
        return []
    place, values = max(sizes, key=lambda item: (len(item[1]), -item[0]))
    largest = max(values)
    below = max(values - {largest}, default=0)
    template = next(one for one in fields if one[place].endswith(f"={largest}"))
    name = template[place].partition("=")[0]
    made = ([(below + largest) // 2] if below and largest - below > 1 else []) + [2 * largest]
    return ["|".join([*template[:place], f"{name}={value}", *template[place + 1 :]]) for value in made]


def _leave_out(winners: Mapping[str, str], slowdowns: Mapping[str, Slowdowns]) -> tuple[float, ...]:
    """How much slower than the fastest config the rule's choice is, for recorded keys that are left out in turn."""
    keys = sorted(slowdowns.keys() - {ANY_KEY})
    if not 2 <= len(keys) <= _MOST_TESTED:
        return ()
    found = []
    for key in keys[:: -(-len(keys) // _MOST_LEFT_OUT)]:
        others = {other: text for other, text in winners.items() if other != key}
        live = sorted(text for text, percent in slowdowns[key].items() if percent != FAILED)
        ranking = RecordedKeys(others, {other: slowdowns[other] for other in keys if other != key}).rank(key, live, 1)
        if ranking.known:
            found.append(float(slowdowns[key][ranking.candidates[0]]))
    return tuple(found)
