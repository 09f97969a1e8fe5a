"""Deciding the launches of one policy: the table's entry, the fallbacks, and what happens when a config does not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tuning_registry.errors import LaunchError
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import live_config_text
from tuning_registry.model.names import ANY_KEY
from tuning_registry.runtime.guard import guarded, warn_once
from tuning_registry.runtime.job.devices import Devices
from tuning_registry.runtime.job.place import current_place
from tuning_registry.runtime.misses import FAULT, Miss
from tuning_registry.runtime.pinning.decision import (
    BANNED,
    LAUNCH_OPTIONS,
    Decision,
    all_banned,
    allowed_candidates,
    cheapest,
    decide,
    named_candidates,
)
from tuning_registry.runtime.pinning.tables import TableSource
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.runtime.triton.keys import Call
from tuning_registry.runtime.triton.pruning import prunes_its_own_way
from tuning_registry.runtime.triton.watch import Launch

_ERROR_LENGTH = 200  # of Triton's errors, some of which quote the whole kernel


class Job(Protocol):
    """What deciding launches needs to know of a session, and tells it (`session.Session`)."""

    policy: AutotunePolicy
    tables: TableSource
    devices: Devices

    @property
    def pins(self) -> bool:
        """Whether this session decides launches, rather than Triton."""

    def key(self, call: Call) -> str | None:
        """The shape key of a call, if it has one."""

    def warn_if_unknown(self, arch: str) -> None:
        """Warn once if the architecture is not known."""

    def note_decision(self, call: Call, arch: str, key: str | None, decision: Decision[Any]) -> bool:
        """Note what is about to be launched; whether it is a miss that is new."""

    def note_launch(self, call: Call, arch: str, key: str | None, decision: Decision[Any], *, is_news: bool) -> None:
        """Note the choice of a launch that has succeeded."""

    def note_failure(self, call: Call, arch: str, key: str | None, candidate: Any) -> None:
        """Record that the config of an entry does not run."""

    def note_refusal(self, autotuner: Any, miss: Miss) -> None:
        """Note a launch that was refused."""


class _Place:
    """A launch to be decided: the call, what it is looked up as, and what pruning left."""

    __slots__ = ("_others", "arch", "call", "kept", "key", "pruned")

    def __init__(self, call: Call, arch: str, key: str | None, pruned: list[Any], kept: dict[Any, Any]) -> None:
        self.call = call
        self.arch = arch
        self.key = key
        self.pruned = pruned
        self.kept = kept
        self._others: Sequence[str] | None = None

    @property
    def others(self) -> Sequence[str]:
        """Spellings of the key by other tools."""
        if self._others is None:
            self._others = () if self.key is None else self.call.other_keys(self.key)
        return self._others


class Pinning:
    """Decides launches for a session, which notes what was launched.

    Args:
        session: Supplies policy, tables and logs.
    """

    def __init__(self, session: Job) -> None:
        self._session = session
        self._policy = session.policy
        self._parameters: dict[str, bool] = {}  # of every kernel that was decided
        self._bare_names: dict[str, dict[str, bool]] = {}  # kernels served by each name without a module

    def pin(self, call: Call, pruned: list[Any], kept: dict[Any, Any]) -> Launch:
        """Decide a launch, and note a miss.

        Raises:
            LaunchError: The policy refuses the launch, or every candidate is banned.
        """
        place = _Place(call, self._session.devices.current().arch, self._session.key(call), pruned, kept)
        try:
            decision = self._decide(place)
        except LaunchError as error:
            miss = Miss(place.arch, call.kernel, place.key or "", error.miss, "error")
            guarded("noting a miss", self._session.note_refusal, call.autotuner, miss)
            raise
        return self._launch(place, decision)

    def pin_after_fault(self, call: Call, pruned: list[Any]) -> Launch:
        """Decide on the cheapest candidate after a fault in `pin`, and note it as a miss.

        Raises:
            LaunchError: The policy refuses launches that the table does not decide, or bans every candidate.
        """
        kernel = guarded("naming a kernel", lambda: call.kernel) or "(a kernel without a name)"
        arch = guarded("naming the architecture", lambda: self._session.devices.current().arch) or ""
        if self._policy.on_miss == "error" and not self._policy.is_invariant(kernel):
            guarded("noting a miss", self._session.note_refusal, call.autotuner, Miss("", kernel, "", FAULT, "error"))
            raise LaunchError(
                f"{kernel} could not be pinned because of a fault in tuning_registry itself; the log describes the fault. "
                "To launch it anyway, set on_miss to nearest.", FAULT,
            )  # fmt: skip
        allowed = self.never_banned(kernel, arch, pruned)
        candidate = guarded("estimating costs", cheapest, call.autotuner.configs, allowed)
        candidate = allowed[0] if candidate is None else candidate
        place = _Place(call, arch, guarded("naming a key", self._session.key, call), pruned, {})
        launch = self._launch(place, Decision(candidate, "min_cost", FAULT))
        lasts = guarded("reading a call", lambda: call.has_tensor_key) is False
        return launch._replace(lasts=lasts, give_way=lambda _: None)

    def decide_compiled(self, call: Call, pruned: list[Any]) -> list[Decision[Any]]:
        """What a kernel under `torch.compile` launches, without noting it.

        Returns:
            The decision; where another one would be made if its config did not run, that one as well, since compiled
            code cannot give way to a config that it does not have.

        Raises:
            LaunchError: As for `pin`.
        """
        place = _Place(call, self._session.devices.current().arch, self._session.key(call), pruned, {})
        self._session.warn_if_unknown(place.arch)
        try:
            first = self._from_rule(place, ())
        except LaunchError as error:
            miss = Miss(place.arch, call.kernel, place.key or "", error.miss, "error")
            guarded("noting a miss", self._session.note_refusal, call.autotuner, miss)
            raise
        if first.candidate is None or not self._may_give_way(first) or len(pruned) == 1:
            return [first]
        try:
            second = self._from_rule(place, (first.candidate,))
        except (LaunchError, IndexError, ValueError):  # no other candidate may be launched
            return [first]
        return [first] if second.candidate is None else [first, second]

    def candidates_of_any_key(self, call: Call, pruned: list[Any]) -> list[Any]:
        """The candidates to compile for a kernel that decides at each launch, because its key is not known before.

        It does not depend on the key of the call, so that ranks compile the same candidates.
        """
        kernel, configs = call.kernel, call.autotuner.configs
        table = self._session.tables.table(self._session.devices.current().arch)
        allowed = allowed_candidates(kernel, None, pruned, table)  # one key may have what is banned for another
        if self._policy.chaos or self._policy.block_sizes_of(kernel):
            return allowed
        banned = table.bans.anywhere(kernel)
        return named_candidates(
            kernel, configs, allowed, table, [c for c in allowed if not banned.forbids(c)] or allowed
        )

    def _may_give_way(self, decision: Decision[Any]) -> bool:
        """Whether another candidate is launched if a decided one does not run: not in place of an entry of the key."""
        is_entry = decision.source == "table"
        return not is_entry or (decision.entry[1] == ANY_KEY and self._policy.on_miss != "error")

    def allowed(self, call: Call, pruned: Any) -> Any:
        """What the table's bans leave of the candidates that Triton is about to time.

        Raises:
            LaunchError: They leave none.
        """
        kernel = call.kernel
        if not self._session.pins or not self._policy.in_scope(kernel):
            return pruned
        arch = self._session.devices.current().arch
        table = self._session.tables.table(arch)
        if not table.bans.may_touch(kernel):
            return pruned
        candidates, key = list(pruned), self._session.key(call)
        others = () if key is None else call.other_keys(key)
        left = allowed_candidates(kernel, key, candidates, table, others)
        if candidates and not left:
            raise LaunchError(all_banned(kernel, key, table, others), BANNED)
        return left

    def check_hook(self, call: Call, candidate: Any) -> None:
        """Look a candidate up again, because its hook changed it.

        Raises:
            LaunchError: The table bans what the hook made of it.
        """
        arch, key = self._session.devices.current().arch, self._session.key(call)
        table = self._session.tables.table(arch)
        others = () if key is None else call.other_keys(key)
        if not allowed_candidates(call.kernel, key, [candidate], table, others):
            raise LaunchError(
                f"the pre_hook of a config of {call.kernel} changed it to {_shown(candidate)}, which the table bans for key "
                f"{key or '(none)'}, on {arch}, so nothing was launched", BANNED,
            )  # fmt: skip

    def unknown_sizes(self) -> list[str]:
        """The parameters in the policy's block sizes that no launched kernel has; empty if nothing was decided."""
        stated = set(self._policy.block_sizes)
        for kernel, sizes in self._policy.block_sizes.items():
            stated = stated - {kernel} | set(sizes) if isinstance(sizes, Mapping) else stated
        return sorted(stated - set(self._parameters) - LAUNCH_OPTIONS) if self._parameters else []

    def _decide(self, place: _Place) -> Decision[Any]:
        """The decision for an autotuner, architecture and key; kept, so that every form of a call gets the same one."""
        session, call, key, kept = self._session, place.call, place.key, place.kept
        decision: Decision[Any] | None = kept.get((place.arch, key)) if key is not None else None
        is_kept = decision is not None and self._may_launch(place, decision.candidate)
        if decision is not None and is_kept and not self._policy.check_launches:
            return decision
        session.warn_if_unknown(place.arch)
        fresh = self._from_rule(place, kept.get(("failed", place.arch, key), ()) if key is not None else ())
        if key is None:
            return fresh
        if decision is not None and fresh.candidate is not decision.candidate:
            warn_once(("pruning", place.arch, call.kernel, key), "%s, key %s: two launches of this key prune "
                      "differently, because pruning depends on an argument that is not in the key. The first decision "
                      "(%s) %s; this launch %s %s", call.kernel, key, _shown(decision.candidate),
                      "is kept" if is_kept else "is not among its candidates",
                      "alone would get" if is_kept else "gets", _shown(fresh.candidate))  # fmt: skip
        if decision is not None and is_kept:
            return decision
        # If threads decide at the same time, the first decision counts, unless pruning left each its own candidates.
        first: Decision[Any] = kept.setdefault((place.arch, key), fresh)
        if first is not fresh and not self._may_launch(place, first.candidate):
            first = kept[place.arch, key] = fresh
        return first

    def _may_launch(self, place: _Place, candidate: Any) -> bool:
        """Whether an earlier decision holds for a launch: pruning left the candidate, and it is not banned by now.

        A ban is looked up again, because the values of a candidate may have changed.
        """
        if candidate is None:
            return True
        table = self._session.tables.table(place.arch)
        left = [one for one in place.pruned if one is candidate]
        return bool(left and allowed_candidates(place.call.kernel, place.key, left, table, place.others))

    def _from_rule(self, place: _Place, failed: tuple[Any, ...]) -> Decision[Any]:
        """What the rule decides when the `failed` candidates do not run."""
        call, key = place.call, place.key
        table = self._session.tables.table(place.arch)
        configs = call.autotuner.configs
        if len(configs) == 1:
            if not allowed_candidates(call.kernel, key, place.pruned, table, place.others):
                raise LaunchError(all_banned(call.kernel, key, table, place.others), BANNED)
            return Decision(place.pruned[0], "single")
        self._parameters.update(dict.fromkeys((name for config in configs for name in config.kwargs), True))
        rank = current_place().rank if self._policy.chaos else 0
        # Such a class may put a banned candidate back, and Triton launches it if no candidate can be timed.
        may_time = not (table.bans.may_touch(call.kernel) and prunes_its_own_way(call.autotuner))
        decision = decide(call.kernel, key, configs, place.pruned, table, self._policy, rank,
                          other_spellings=place.others, failed=failed, may_time=may_time)  # fmt: skip
        is_tuned = self._policy.on_miss == "tune" or self._policy.is_invariant(call.kernel)
        if is_tuned and not may_time and decision.source in {"nearest", "min_cost"}:
            warn_once(("own pruning", call.kernel), "%s is not timed, because its class overrides prune_configs, so Triton could "
                      "launch a config that the table bans", call.kernel)  # fmt: skip
        return decision

    def _forget_banned(self, place: _Place) -> None:
        """Take banned configs out of Triton's cache of winners, into which others put them: before install, or later."""
        cache = getattr(place.call.autotuner, "cache", None)
        if not isinstance(cache, dict):
            return
        banned = self._session.tables.table(place.arch).bans.at(place.call.kernel, place.key, place.others)
        for key, config in list(cache.items()):
            if banned.forbids(config):
                cache.pop(key, None)

    def _launch(self, place: _Place, decision: Decision[Any], failed: tuple[Any, ...] = ()) -> Launch:
        session, call = self._session, place.call
        is_news = bool(guarded("noting a launch", session.note_decision, call, place.arch, place.key, decision))
        if decision.entry[0] and decision.entry[0] != call.kernel:
            guarded("noting a bare name", self._note_bare_name, call.kernel, decision.entry[0])

        def succeeded() -> None:
            session.note_launch(call, place.arch, place.key, decision, is_news=is_news)
            if failed:
                self._warn_of_failures(place, decision, failed)

        def give_way(error: BaseException) -> Launch | None:
            return self._give_way(place, decision, failed, error)

        is_single, is_left = len(call.autotuner.configs) == 1, decision.candidate is None
        has_bans = (is_single or is_left) and session.tables.table(place.arch).bans.may_touch(call.kernel)
        if is_left:
            if has_bans:
                self._forget_banned(place)
            guarded("noting a choice", succeeded)
        # A tensor as a key value equals only itself: a pin for it would keep the tensor alive and never be found.
        lasts = place.key is not None or not call.has_tensor_key
        if self._policy.check_launches and not is_single:
            lasts = False
        elif is_single:  # its pin holds for every key, which a ban of one key does not
            lasts = not has_bans
        elif is_left:  # Triton launches what is in its cache, into which others may put a banned config at any time
            lasts = lasts and not has_bans
        return Launch(decision.candidate, lasts, succeeded, give_way)

    def _give_way(self, place: _Place, decision: Decision[Any], failed: tuple[Any, ...],
                  error: BaseException) -> Launch | None:  # fmt: skip
        """The next choice of the same rule; None if the config was chosen for this key by an entry, or none is left."""
        call, key = place.call, place.key
        if not self._may_give_way(decision):
            guarded("noting a failure", self._note_failed_entry, place, decision, error)
            return None
        failed = (*failed, decision.candidate)
        table = self._session.tables.table(place.arch)
        allowed = allowed_candidates(call.kernel, key, place.pruned, table, place.others)
        if all(any(candidate is other for other in failed) for candidate in allowed):
            warn_once(("all failed", place.arch, call.kernel, key), "%s, key %s: none of the %s candidates that may be "
                      "launched runs; the last error: %s", call.kernel, key, len(allowed), _described(error))  # fmt: skip
            return None
        instead = self._from_rule(place, failed)
        if key is not None:
            place.kept["failed", place.arch, key] = failed
            place.kept[place.arch, key] = instead
        return self._launch(place, instead, failed)

    def _note_failed_entry(self, place: _Place, decision: Decision[Any], error: BaseException) -> None:
        call, key = place.call, place.key
        table = self._session.tables.table(place.arch)
        warn_once(("entry", place.arch, call.kernel, key), "the entry of %s for %s, key %s, does not run: %s raised %s",
                  table.provenance.get("file", "the table"), call.kernel, key, _shown(decision.candidate),
                  _described(error))  # fmt: skip
        self._session.note_failure(call, place.arch, key, decision.candidate)

    def _warn_of_failures(self, place: _Place, decision: Decision[Any], failed: tuple[Any, ...]) -> None:
        warn_once(("failed", place.arch, place.call.kernel, place.key), "%s, key %s: %s did not run (it does not compile, or "
                  "does not fit the device); launching %s instead. Record this key and export it.", place.call.kernel,
                  place.key or "(none)", "; ".join(map(_shown, failed)), _shown(decision.candidate))  # fmt: skip

    def _note_bare_name(self, kernel: str, name: str) -> None:
        served = self._bare_names.setdefault(name, {})
        served[kernel] = True
        if len(served) > 1:
            warn_once(("bare name", name), "the table's entries for %s have no module, so they serve several kernels: %s. "
                      "Record again: new recordings have qualified names.", name, " and ".join(sorted(served)))  # fmt: skip

    def never_banned(self, kernel: str, arch: str, pruned: list[Any]) -> list[Any]:
        """The candidates that are not banned for any key of a kernel.

        Raises:
            LaunchError: There is none, or the bans cannot be read.
        """
        banned = guarded("reading the bans", lambda: self._session.tables.table(arch).bans.anywhere(kernel))
        if banned is None:
            raise LaunchError(f"{kernel} could not be pinned because the bans of its table cannot be read; the log describes "
                              "the fault.", FAULT)  # fmt: skip
        left = [candidate for candidate in pruned if not banned.forbids(candidate)]
        if not left:
            raise LaunchError(f"the table bans every candidate of {kernel}, so nothing was launched", BANNED)
        return left


def _shown(candidate: Any) -> str:
    text = None if candidate is None else live_config_text(candidate)
    return (
        short_config(text) if text is not None else "a config without a text" if candidate is not None else "(Triton)"
    )


def _described(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:_ERROR_LENGTH]}"
