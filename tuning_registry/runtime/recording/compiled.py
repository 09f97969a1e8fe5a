"""What winners need to be compiled, by entry, and the `extra` of a recording that holds it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from tuning_registry.formats.specializations import NAME, compile_document
from tuning_registry.model.names import lookup_key
from tuning_registry.model.specializations import Specialization

Entry = tuple[str, str, str]  # arch, kernel, key


class Compiled:
    """The specializations of one process. Launches only append to a list; readers sort it into entries, as in `Notes`."""

    def __init__(self) -> None:
        self._fresh: deque[tuple[Entry, str, Specialization]] = deque()
        self._lock = threading.Lock()  # of readers
        self._seen: set[Entry] = set()  # with the key in the form that is equal for equal keys
        self._configs: dict[str, int] = {}
        self._specializations: dict[Specialization, int] = {}
        self._rows: dict[str, dict[str, dict[str, list[list[int]]]]] = {}

    def keep(self, entry: Entry, config: str, specialization: Specialization) -> None:
        """Keep what a winner needs, unless the entry has a winner."""
        self._fresh.append((entry, config, specialization))

    def extra(self) -> dict[str, Any]:
        """The `extra` of a recording with these specializations; empty without one."""
        with self._lock:
            while self._fresh:
                (arch, kernel, key), config, specialization = self._fresh.popleft()
                place = (arch, kernel, lookup_key(key))
                if place not in self._seen:
                    self._seen.add(place)
                    pair = [
                        self._configs.setdefault(config, len(self._configs)),
                        self._specializations.setdefault(specialization, len(self._specializations)),
                    ]
                    self._rows.setdefault(arch, {}).setdefault(kernel, {})[key] = [pair]
            if not self._rows:
                return {}
            rows = {arch: {name: dict(keys) for name, keys in kernels.items()} for arch, kernels in self._rows.items()}
            return {NAME: compile_document(rows, self._configs, self._specializations)}
