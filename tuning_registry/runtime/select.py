"""Which candidate a kernel launches without timing: entry, stated block sizes, cheapest estimate, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tuning_registry.errors import LaunchError
from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.canonical import live_config_text, text_digest
from tuning_registry.runtime.policy import AutotunePolicy

C = TypeVar("C")

PRUNED_AWAY: Final = "pruned away"
UNSUPPORTED_KEY: Final = "unsupported key"
FAULT: Final = "fault"  # of ours, before a table could answer
# Reasons of a miss that mean nothing where only one candidate is left: there is no choice to look up.
_NO_ENTRY: Final = frozenset({"no table", "no kernel", "no key", "ambiguous name", UNSUPPORTED_KEY})


class Selection(NamedTuple, Generic[C]):
    """What a pinned launch uses.

    Attributes:
        candidate: The kernel's own live object; None leaves the choice to Triton (invariant kernels only).
        source: `table`, `block_sizes`, `min_cost`, `single` (no choice), `chaos`, or `timed` (left to Triton).
        miss: Why the table did not decide; empty on a hit and where there was nothing to decide.
        entry: The table's kernel and key that decided; empty strings otherwise.
    """

    candidate: C | None
    source: str
    miss: str = ""
    entry: tuple[str, str] = ("", "")


def select(kernel: str, key: str | None, configs: Sequence[C], pruned: Sequence[C], table: TunedTable,
           policy: AutotunePolicy, rank: int = 0) -> Selection[C]:  # fmt: skip
    """The candidate to launch.

    The table's entry decides. Without one the policy's block sizes do, then the cheapest candidate by the
    static estimate, or an error with `on_miss="error"`. A candidate that the kernel's pruning dropped is
    never launched.

    Args:
        kernel: Qualified kernel name.
        key: Shape key; None when the call has none.
        configs: The kernel's candidates in declaration order.
        pruned: Those its pruning left, at least one.
        table: The table of the architecture; may be empty.
        policy: Gives block sizes, invariant kernels, `on_miss` and chaos.
        rank: For chaos only: ranks of different parity get different candidates.

    Raises:
        LaunchError: No entry, no block sizes, and `on_miss` is `error`; its `miss` says why.
    """
    if policy.chaos and len(pruned) > 1:
        return Selection(_chaotic(kernel, key, pruned, rank), "chaos")
    candidate, miss, entry = _from_table(kernel, key, configs, pruned, table)
    if candidate is not None:
        return Selection(candidate, "table", entry=entry)
    if len(pruned) == 1 and miss in _NO_ENTRY:
        return Selection(pruned[0], "single")
    ordered = _in_declaration_order(configs, pruned)
    stated = _stated(ordered, policy.block_sizes_of(kernel))
    if stated:
        return Selection(min(stated, key=static_estimate), "block_sizes", miss)
    if policy.is_invariant(kernel) and len(pruned) > 1:
        return Selection(None, "timed", miss)
    if policy.on_miss == "error":
        raise LaunchError(
            f"{kernel} has no config to pin for key {key or '(none)'} on {table.arch}: {miss} ({shown(table)}); record "
            "and export this key, state block_sizes, or set on_miss to min_cost", miss,
        )  # fmt: skip
    return Selection(cheapest(configs, pruned), "min_cost", miss)


def cheapest(configs: Sequence[C], pruned: Sequence[C]) -> C:
    """The candidate of the least static estimate; of equal ones the first in the order of `configs`."""
    return min(_in_declaration_order(configs, pruned), key=static_estimate)


def shown(table: TunedTable) -> str:
    """Which table was asked, and the two Triton versions that a miss may come from, for a message."""
    here = installed_triton() or "?"
    if "file" not in table.provenance:
        return f"no table for {table.arch}; this is Triton {here}"
    made = table.provenance.get("triton") or "?"
    return f"table {table.provenance['file']} ({len(table)} entries) made with Triton {made}, this is {here}"


def static_estimate(candidate: Any) -> tuple[int, int]:
    """What a candidate roughly costs in on-chip memory: `(product of BLOCK* x num_stages, num_warps)`.

    The product of the integer kwargs whose name begins with BLOCK, times `num_stages`; then `num_warps`.
    Of equal estimates the candidate declared first is taken: `min` keeps the first.
    """
    product = candidate.num_stages
    for name, value in candidate.kwargs.items():
        if name.startswith("BLOCK") and type(value) is int:
            product *= value
    return product, candidate.num_warps


def _from_table(kernel: str, key: str | None, configs: Sequence[C], pruned: Sequence[C],
                table: TunedTable) -> tuple[C | None, str, tuple[str, str]]:  # fmt: skip
    if key is None:
        return None, UNSUPPORTED_KEY, ("", "")
    match = table.find(kernel, key, pruned)
    if match.candidate is None and match.reason == "not a candidate" and len(pruned) < len(configs):
        dropped = table.find(kernel, key, configs).reason != "not a candidate"
        return None, PRUNED_AWAY if dropped else match.reason, ("", "")
    return match.candidate, match.reason, (match.kernel, match.key)


def _in_declaration_order(configs: Sequence[C], pruned: Sequence[C]) -> list[C]:
    """`pruned` in the order of `configs`: a performance model sorts what it leaves."""
    place = {id(config): index for index, config in enumerate(configs)}
    return sorted(pruned, key=lambda config: place.get(id(config), len(place)))


def _stated(candidates: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """The candidates that carry every stated parameter they have at its stated value, and have at least one.

    Launch fields (`num_warps`, `num_stages`, ...) may be stated like kwargs.
    """
    launch = ("num_warps", "num_stages", "num_ctas", "maxnreg")

    def value(candidate: Any, name: str) -> object:
        return candidate.kwargs.get(name, getattr(candidate, name, None) if name in launch else None)

    known = {name for name in sizes if any(value(candidate, name) is not None for candidate in candidates)}
    return [c for c in candidates if known and all(value(c, name) == sizes[name] for name in known)]


def _chaotic(kernel: str, key: str | None, pruned: Sequence[C], rank: int) -> C:
    """A candidate that depends on the rank: neighbours always differ where two candidates do.

    Candidates are taken in the order of their canonical texts, so that a rank's pick does not depend on
    how a pruner sorts.
    """
    ordered = sorted(pruned, key=lambda candidate: live_config_text(candidate) or "")
    start = int(text_digest(f"{kernel}\n{key}")[:8], 16)
    return ordered[(start + rank) % len(ordered)]
