"""Choices of a runner and a tactic, as the autotuners of FlashInfer and TensorRT-LLM cache them.

Their cache keys hold the op, the class of the chosen runner, what the runner was made with (its *extras*), and the
shapes of the inputs (the *profile*). Ranks that chose different runners have different cache keys, and the extras
of two runners differ, so that entries are compared by op and profile.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.tools.winners import winner_alone
from tuning_registry.model.canonical import check_value
from tuning_registry.model.kinds import tactic_text
from tuning_registry.model.records import Timing

_SPECIAL: Final = re.compile(r"[\\|=]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One entry of a cache.

    Attributes:
        kernel: Name of the custom op, after the module of the autotuner (`flashinfer.fp4_gemm`).
        runner: Class of the runner that won.
        profile: Shapes of the inputs, as text.
        extras: What the runner was made with, as text; None if the cache does not state it.
        tactic: An integer or nested lists.
        time_ms: Time of the winner in milliseconds; None if it is not known, and NaN if it cannot be a measurement.
        path: Where it is in its file.
        is_extras_kept: Whether the extras, if ranks have the same, are part of the config.
    """

    kernel: str
    runner: str
    profile: str
    extras: str | None
    tactic: Any
    time_ms: float | None
    path: tuple[str, ...]
    is_extras_kept: bool = True


@dataclass
class Tactics:
    """The choices of one cache, by kernel and shape key."""

    choices: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    timings: dict[str, dict[str, Sequence[Timing]]] = field(default_factory=lambda: defaultdict(dict))


# See docs/decisions.md, D144.
class Slots:
    """The shape keys of caches that belong together, such as those of all ranks.

    A key is the profile. If one cache has several runners or extras for a profile, the keys of that profile state them.
    Extras are part of a config, unless they differ between the caches, as they do if they hold the rank.

    Args:
        caches: The entries of each cache.
    """

    def __init__(self, caches: Iterable[Sequence[Chosen]]) -> None:
        self._extras: dict[tuple[str, str, str], set[str | None]] = defaultdict(set)
        self._several_runners: set[tuple[str, str]] = set()
        self._several_extras: set[tuple[str, str]] = set()
        for cache in caches:
            runners: dict[tuple[str, str], set[str]] = defaultdict(set)
            extras: dict[tuple[str, str, str], set[str | None]] = defaultdict(set)
            for one in cache:
                runners[one.kernel, one.profile].add(one.runner)
                extras[one.kernel, one.profile, one.runner].add(one.extras)
            for runner, found in extras.items():
                self._extras[runner] |= found
            self._several_runners |= {slot for slot, names in runners.items() if len(names) > 1}
            self._several_extras |= {runner[:2] for runner, found in extras.items() if len(found) > 1}

    def arrange(self, cache: Sequence[Chosen]) -> Tactics:
        """The choices of one of the caches, by kernel and shape key.

        Raises:
            FormatError: It holds a choice twice.
        """
        tactics = Tactics()
        for one in cache:
            key, extras = self._key(one), self._common_extras(one)
            if key in tactics.choices[one.kernel]:
                raise FormatError("this choice appears twice", one.path)
            text = tactic_text(one.runner, one.tactic, **({} if extras is None else {"extras": extras}))
            tactics.choices[one.kernel][key] = text
            if one.time_ms is not None:
                tactics.timings[one.kernel][key] = winner_alone(text, one.time_ms)
        return tactics

    def _key(self, one: Chosen) -> str:
        slot = one.kernel, one.profile
        fields = [("profile", one.profile)]
        fields += [("runner", one.runner)] if slot in self._several_runners else []
        fields += [("extras", one.extras)] if slot in self._several_extras and one.extras is not None else []
        return "|".join(name + "=" + _SPECIAL.sub(r"\\\g<0>", value) for name, value in fields)

    def _common_extras(self, one: Chosen) -> str | None:
        is_in_key = (one.kernel, one.profile) in self._several_extras
        is_common = len(self._extras[one.kernel, one.profile, one.runner]) == 1
        return one.extras if one.is_extras_kept and (is_in_key or is_common) else None


def read_tactic(value: Any) -> Any:
    """A tactic: an integer or nested lists.

    Raises:
        FormatError: It is something else, or holds a value that JSON cannot.
    """
    if isinstance(value, bool) or not isinstance(value, int | list):
        raise FormatError(f"expected an integer or an array, found {describe(value)}", ("tactic",))
    check_value(value, ("tactic",))
    return value


def underscored(device: str) -> str:
    """The name of a device as the file names of other tools spell it: `NVIDIA_B200`."""
    return re.sub(r"[\s/]+", "_", device)
