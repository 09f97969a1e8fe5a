"""Deciding, without timing, which candidate a pinned kernel launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tuning_registry.errors import LaunchError
from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.matching import AMBIGUOUS, WHY_AMBIGUOUS, live_text, match_text, value_text
from tuning_registry.formats.short_configs import short_config
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.names import bare_name
from tuning_registry.rules.unseen_keys import suggest
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.wording import count_of

C = TypeVar("C")

PRUNED_AWAY: Final = "pruned away"
UNSUPPORTED_KEY: Final = "unsupported key"
# Reasons that are not a miss if only one candidate is left: there is nothing to look up.
_NO_ENTRY: Final = frozenset({"no table", "no kernel", "no key", UNSUPPORTED_KEY})
LAUNCH_OPTIONS: Final = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg"})
BANNED: Final = "banned"
FAILED: Final = "does not run"  # the config that decided raised an error before the kernel ran


class Decision(NamedTuple, Generic[C]):
    """The candidate of a pinned launch, and how it was found.

    Attributes:
        candidate: The kernel's own config object; None leaves the choice to Triton (invariant kernels only).
        source: `table`, `block_sizes`, `nearest`, `min_cost`, `single` (only one candidate), `chaos`, or `timed` (by
            Triton).
        miss: Why no entry of the table decided; empty on a hit, or if there was nothing to decide.
        entry: The kernel and key of the table entry that decided; of the nearest entry if the source is `nearest`; else
            empty strings.
    """

    candidate: C | None
    source: str
    miss: str = ""
    entry: tuple[str, str] = ("", "")

    @property
    def nearest(self) -> str:
        """The key that `nearest` found; empty if another rule decided."""
        return self.entry[1] if self.source == "nearest" else ""


def decide(kernel: str, key: str | None, configs: Sequence[C], pruned: Sequence[C], table: TunedTable,
           policy: AutotunePolicy, rank: int = 0, *, other_spellings: Sequence[str] = (),
           failed: Sequence[C] = (), may_time: bool = True) -> Decision[C]:  # fmt: skip
    """Decide which candidate to launch.

    The table entry decides, be it of this key or of `*`. Without one, the policy's block sizes decide, then `on_miss`:
    the recorded keys around this one (`rules.unseen_keys`), the static estimate, Triton, or nobody. What `nearest`
    cannot decide, the static estimate does. A candidate that the kernel's pruning dropped, or that the table bans for
    this kernel and key, is never launched. The answer depends on the arguments only.

    Args:
        kernel: Qualified kernel name.
        key: Shape key; None if the call has none.
        configs: The kernel's candidates in declaration order.
        pruned: The candidates that the kernel's pruning left, at least one.
        table: The table of the architecture; may be empty.
        policy: Supplies block sizes, invariant kernels, `on_miss` and chaos.
        rank: Used for chaos only: ranks of different parity get different candidates.
        other_spellings: Keys that other tools write for the same call.
        failed: Candidates that were decided on earlier and did not run; the next choice of the same rule is made.
        may_time: Whether Triton may be left to time the candidates.

    Raises:
        LaunchError: There is no entry, no block sizes apply, and `on_miss` is `error`; or every candidate is banned.
            `miss` gives the reason.
    """
    allowed = allowed_candidates(kernel, key, pruned, table, other_spellings)
    if not allowed:
        raise LaunchError(all_banned(kernel, key, table, other_spellings), BANNED)
    left = [candidate for candidate in allowed if not any(candidate is other for other in failed)]
    if policy.chaos and len(pruned) > 1:
        return Decision(_chaotic(kernel, key, left, rank), "chaos")
    candidate, miss, entry = _from_table(kernel, key, configs, pruned, table, other_spellings)
    if candidate is not None and any(candidate is other for other in left):
        return Decision(candidate, "table", entry=entry)
    miss = miss or FAILED
    if len(pruned) == 1 and miss in _NO_ENTRY:
        return Decision(left[0], "single")
    stated = _stated(_in_declaration_order(configs, left), policy.block_sizes_of(kernel))
    if stated:
        return Decision(min(stated, key=static_estimate), "block_sizes", miss)
    is_timed = (policy.is_invariant(kernel) or policy.on_miss == "tune") and len(pruned) > 1
    if is_timed and may_time:
        return Decision(None, "timed", miss)
    if policy.on_miss == "error" and not is_timed:
        raise LaunchError(
            f"no config to pin for {kernel}, key {key or '(none)'}, on {table.arch}: {miss} ({describe_table(table)}). "
            f"{WHY_AMBIGUOUS if miss == AMBIGUOUS else 'Record this key and export it'}, set block_sizes, or set on_miss to "
            "nearest.", miss,
        )  # fmt: skip
    found = _by_nearest(kernel, key, left, table, other_spellings) if policy.on_miss == "nearest" else None
    return found._replace(miss=miss) if found else Decision(cheapest(configs, left), "min_cost", miss)


def allowed_candidates(kernel: str, key: str | None, candidates: Sequence[C], table: TunedTable,
                       other_spellings: Sequence[str] = ()) -> list[C]:  # fmt: skip
    """The candidates that the table does not ban for a kernel and key."""
    if not table.bans.may_touch(kernel):
        return list(candidates)
    banned = table.bans.at(kernel, key, other_spellings)
    return [candidate for candidate in candidates if not banned.forbids(candidate)]


def all_banned(kernel: str, key: str | None, table: TunedTable, other_spellings: Sequence[str] = ()) -> str:
    """Why nothing can be launched, naming kernel, key and bans."""
    banned = "; ".join(short_config(text) for text in sorted(table.bans.at(kernel, key, other_spellings)))
    return (
        f"the table bans every candidate of {kernel} for key {key or '(none)'}, on {table.arch}, so nothing was launched "
        f"({describe_table(table)}). Banned: {banned}. Lift a ban with registry lift and export again, or pin a config."
    )


def cheapest(configs: Sequence[C], pruned: Sequence[C]) -> C:
    """The candidate with the lowest static estimate; on a tie, the first in the order of `configs`."""
    return min(_in_declaration_order(configs, pruned), key=static_estimate)


def named_candidates(
    kernel: str, configs: Sequence[C], pruned: Sequence[C], table: TunedTable, safe: Sequence[C]
) -> list[C]:
    """The candidates that entries of a kernel name for any key, and the two safe ones with the lowest static estimates.

    Args:
        kernel: Qualified kernel name.
        configs: The kernel's candidates in declaration order.
        pruned: Those to choose from.
        table: The table of the architecture.
        safe: Those that no key bans.
    """
    keys: dict[str, str] = {}
    for name in (kernel, bare_name(kernel)):
        for key, text in table.texts.get(name, {}).items():
            keys.setdefault(text, key)
    found = [table.find(kernel, key, pruned).candidate for key in keys.values()]
    found += sorted(_in_declaration_order(configs, safe), key=static_estimate)[:2]
    return [candidate for candidate in pruned if any(candidate is one for one in found)]


def describe_table(table: TunedTable) -> str:
    """The table that was asked, and the two Triton versions whose difference may explain a miss."""
    here = installed_triton() or "of unknown version"
    if "file" not in table.provenance:
        return f"no table for {table.arch}; this process uses Triton {here}"
    return f"{table.provenance['file']}: {table_size(table)}; this process uses Triton {here}"


def table_size(table: TunedTable) -> str:
    """The number of entries and the Triton version that they were recorded with, for a message."""
    made = table.provenance.get("triton")
    return f"{count_of(len(table), 'entry')}, {f'Triton {made}' if made else 'unknown Triton'}"


def static_estimate(candidate: Any) -> tuple[int, int]:
    """A rough measure of the on-chip memory that a candidate needs: `(product of BLOCK* x num_stages, num_warps)`.

    The product of the integer kwargs whose name begins with BLOCK, times `num_stages`; then `num_warps`.
    An option that is None (left to Triton) or 0 counts as 1. On a tie, `min` keeps the candidate that is declared first.
    """
    product = candidate.num_stages or 1
    for name, value in candidate.kwargs.items():
        if name.startswith("BLOCK") and type(value) is int:
            product *= value
    return product, candidate.num_warps or 1


def _from_table(kernel: str, key: str | None, configs: Sequence[C], pruned: Sequence[C], table: TunedTable,
                other_spellings: Sequence[str]) -> tuple[C | None, str, tuple[str, str]]:  # fmt: skip
    if key is None:
        return None, UNSUPPORTED_KEY, ("", "")
    match = table.find(kernel, key, pruned, other_spellings)
    if match.candidate is None and match.reason == "not a candidate" and len(pruned) < len(configs):
        dropped = table.find(kernel, key, configs, other_spellings).reason != "not a candidate"
        return None, PRUNED_AWAY if dropped else match.reason, ("", "")
    return match.candidate, match.reason, (match.kernel, match.key)


def _by_nearest(kernel: str, key: str | None, left: Sequence[C], table: TunedTable,
                other_spellings: Sequence[str]) -> Decision[C] | None:  # fmt: skip
    """What the recorded keys around this one suggest; None if they suggest none of the candidates."""
    if key is None:
        return None
    candidates = [(candidate, live_text(candidate)) for candidate in left]
    texts = [text for _, text in candidates if text is not None]
    while texts:
        found = suggest(table, kernel, key, texts, other_spellings)
        if found is None:
            break
        candidate, _ = match_text(found.config, candidates)
        if candidate is not None:
            return Decision(candidate, "nearest", entry=(found.kernel, found.key))
        # Several candidates differ in their hook alone, so none of them is named. See docs/decisions.md, D19.
        texts = [text for text in texts if value_text(text) != value_text(found.config)]
    return None


def _in_declaration_order(configs: Sequence[C], pruned: Sequence[C]) -> list[C]:
    """`pruned` in the order of `configs`: a performance model may sort the candidates that it leaves."""
    place = {id(config): index for index, config in enumerate(configs)}
    return sorted(pruned, key=lambda config: place.get(id(config), len(place)))


def _stated(candidates: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """The candidates that match the stated sizes; parameters that no candidate has are ignored.

    Launch fields (`num_warps`, `num_stages`, ...) may be stated like kwargs.
    """

    def value(candidate: Any, name: str) -> object:
        return candidate.kwargs.get(name, getattr(candidate, name, None) if name in LAUNCH_OPTIONS else None)

    known = {name for name in sizes if any(value(candidate, name) is not None for candidate in candidates)}
    return [c for c in candidates if known and all(value(c, name) == sizes[name] for name in known)]


def _chaotic(kernel: str, key: str | None, pruned: Sequence[C], rank: int) -> C:
    """A candidate that depends on the rank: neighbouring ranks get different ones.

    Candidates are ordered by their canonical texts, so that the result does not depend on how a pruner sorts.
    """
    ordered = sorted(pruned, key=lambda candidate: live_text(candidate) or "")
    start = int(text_digest(f"{kernel}\n{key}")[:8], 16)
    return ordered[(start + rank) % len(ordered)]
