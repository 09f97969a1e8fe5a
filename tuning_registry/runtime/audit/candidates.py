"""The audit of a call: every candidate runs twice on copies, and its results are compared with the others'."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final

from tuning_registry.log import debug
from tuning_registry.model.audits import DIGEST_DIGITS, AuditedCandidate, AuditedEntry, classes_of
from tuning_registry.model.canonical import dump_json, live_config_text
from tuning_registry.runtime.audit.arguments import (
    NotAuditable,
    holds_addresses,
    memory_of,
    plain_arguments,
    tensors_of,
)
from tuning_registry.runtime.audit.comparison import tolerance_of
from tuning_registry.runtime.audit.copies import Copies, Original, bytes_needed
from tuning_registry.runtime.triton.keys import Call

torch: Any = import_module("torch")

_RUNS: Final = 2
_REFERENCES: Final = 3  # classes that may be tried as the right one


def audit(call: Call, candidates: Sequence[Any], *, seeded: bool, limit_bytes: int) -> AuditedEntry:
    """Run every candidate twice on copies of the call's tensors, as the first launch of a key would run it.

    The tensors of the call are only read, and random generators end in the state in which they were. The copies take
    at most twice the memory of the call's tensors.

    Args:
        call: The call that Triton is about to time candidates for.
        candidates: Those that pruning left, in order.
        seeded: Whether floating-point tensors hold seeded values in place of the job's.
        limit_bytes: How much memory the copies may take.
    """
    try:
        with _undisturbed():
            return _Audit(call, seeded=seeded, limit_bytes=limit_bytes).of(candidates)
    except NotAuditable as reason:
        return AuditedEntry(skipped=str(reason))
    except torch.cuda.OutOfMemoryError:
        return AuditedEntry(skipped="there is not enough device memory for copies")


class _Audit:
    """One audit; holds the copies until it is done.

    Raises:
        NotAuditable: The call cannot be audited.
    """

    def __init__(self, call: Call, *, seeded: bool, limit_bytes: int) -> None:
        tensors = tensors_of(call)
        memory = memory_of(tensors)
        if not memory:
            raise NotAuditable("its tensors are empty")
        needed = bytes_needed(memory)
        if needed > limit_bytes:
            raise NotAuditable(f"copies would take {needed:,} bytes, more than audit_memory allows")
        if holds_addresses(memory):
            raise NotAuditable("a tensor may hold memory addresses")
        self._call = call
        self._seeded = seeded
        self._originals = [Original(one, number if seeded else None) for number, one in enumerate(memory)]
        self._tolerance = tolerance_of(tensor.dtype for tensor in tensors)
        self._failed: set[int] = set()
        self._copies = Copies(call, self._originals)

    def of(self, candidates: Sequence[Any]) -> AuditedEntry:
        """The audit of these candidates."""
        inputs = self._inputs()
        texts = [live_config_text(candidate) for candidate in candidates]
        # Of candidates that differ in their hook alone, a recording can hold one.
        chosen = [number for number, text in enumerate(texts) if text is not None and text not in texts[:number]]
        digests = self._digests([candidates[number] for number in chosen])
        found = [
            AuditedCandidate(str(texts[number]), runs[0], None if not runs[0] else 0.0, len(set(runs)) == 1)
            for number, runs in zip(chosen, digests, strict=True)
        ]
        by_text = {str(texts[number]): candidates[number] for number in chosen}
        return AuditedEntry(inputs=inputs, is_seeded=self._seeded, candidates=self._compared(found, by_text))

    def _inputs(self) -> str:
        """Digest of what the candidates compute from: tensors with their form, and everything else that is passed."""
        self._copies.restore()
        arguments = self._call.arguments
        forms = [
            [name, str(t.dtype), list(t.size()), list(t.stride()), t.storage_offset()]
            for name, t in arguments.items() if isinstance(t, torch.Tensor)
        ]  # fmt: skip
        stated = [forms, plain_arguments(self._call), self._copies.digests().tolist()]
        return _short_digest(dump_json(stated))

    def _digests(self, candidates: Sequence[Any]) -> list[list[str]]:
        """The digest of each run of each candidate; empty texts for one that failed.

        All candidates run once before the first one runs again: what a run leaves behind, in caches for instance,
        is then another.
        """
        hashes: list[list[Any]] = [[] for _ in candidates]
        for _ in range(_RUNS):
            for number, candidate in enumerate(candidates):
                if number not in self._failed and not self._run(candidate, self._copies):
                    self._failed.add(number)
                if number not in self._failed:
                    hashes[number].append(self._copies.digests())
        return [
            [""] if number in self._failed else [_short_digest(dump_json(run)) for run in torch.stack(runs).tolist()]
            for number, runs in enumerate(hashes)
        ]

    # See docs/decisions.md, D93.
    def _compared(self, found: list[AuditedCandidate], candidates: dict[str, Any]) -> list[AuditedCandidate]:
        """The candidates with their differences from the results that most of them agree with.

        These are the results of the largest class, unless most candidates are outside its tolerance: then the next
        classes are tried.
        """
        ran = [one for one in found if not one.failed]
        numbers = classes_of(ran)
        # A candidate that does not repeat itself is a class by itself.
        classes: dict[object, AuditedCandidate] = {}
        for one in sorted(ran, key=lambda one: numbers.get(one.config, len(ran))):
            classes.setdefault(numbers.get(one.config, one.config), one)
        if len(classes) < 2:
            return found
        reference = Copies(self._call, self._originals)
        best, most = found, -1
        for first in itertools.islice(classes.values(), _REFERENCES):
            self._run(candidates[first.config], reference)
            differences: dict[object, tuple[float, bool]] = {}
            for name, one in classes.items():
                if one is not first:
                    self._run(candidates[one.config], self._copies)
                    differences[name] = self._difference(reference)
            compared = [_with(one, differences.get(numbers.get(one.config, one.config))) for one in found]
            agreeing = sum(one.within and not one.failed for one in compared)
            if agreeing > most:
                best, most = compared, agreeing
            if 2 * most >= len(ran):
                break
        return best

    def _difference(self, reference: Copies) -> tuple[float, bool]:
        """The largest difference of the present results, and whether each dtype is within its tolerance."""
        found = self._copies.differences(reference)
        within = all(difference <= (self._tolerance if tolerance_of([dtype]) else 0.0) for dtype, difference in found)
        return max((difference for _, difference in found), default=0.0), within

    # See docs/decisions.md, D94.
    def _run(self, candidate: Any, copies: Copies) -> bool:
        """Run a candidate as the launch after a tuning does; whether it ran."""
        copies.restore()
        autotuner, options = self._call.autotuner, candidate.all_kwargs()
        named = {**dict(zip(autotuner.arg_names, copies.args, strict=False)), **copies.kwargs, **options}
        try:
            autotuner.pre_hook(named, reset_only=True)
            if candidate.pre_hook is not None:
                candidate.pre_hook(named)
                options = candidate.all_kwargs()  # a hook may change its config
            autotuner.fn.run(*copies.args, **copies.kwargs, **options)
        except torch.cuda.OutOfMemoryError:  # perhaps because of the copies
            raise
        except Exception as error:  # noqa: BLE001 - Triton reports it when it times the candidate
            debug("audit: %s fails with %s: %s: %s", self._call.kernel, candidate, type(error).__name__, error)
            return False
        return True


def _with(one: AuditedCandidate, difference: tuple[float, bool] | None) -> AuditedCandidate:
    return one if difference is None else one._replace(difference=difference[0], within=difference[1])


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hide our operations from autograd and from modes of the job, and keep its random generators as they are."""
    modes = import_module("torch.utils._python_dispatch")
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    numpy = sys.modules.get("numpy.random")
    state, numpy_state = random.getstate(), numpy and numpy.get_state()
    with (
        torch.no_grad(),
        torch._C.DisableTorchFunction(),  # noqa: SLF001 - the public context manager covers subclasses only
        modes._disable_current_modes(),  # noqa: SLF001 - as torch's own compiler does
        torch.random.fork_rng(devices),
    ):
        try:
            yield
        finally:
            random.setstate(state)
            if numpy:
                numpy.set_state(numpy_state)


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]
