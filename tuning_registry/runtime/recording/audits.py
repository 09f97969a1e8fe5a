"""The audits that a recorder keeps, by entry, and the `extra` of its recording."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from tuning_registry.formats.audits import NAME, audit_document, audit_rows
from tuning_registry.model.audits import AuditedEntry
from tuning_registry.model.names import lookup_key

Entry = tuple[str, str, str]  # arch, kernel, key


class Audits:
    """Audits of one process. Launches only append to a list; readers sort it into entries, as in `Notes`."""

    def __init__(self) -> None:
        self._fresh: deque[tuple[Entry, AuditedEntry]] = deque()
        self._lock = threading.Lock()  # of readers
        self._seen: set[Entry] = set()  # with the key in the form that is equal for equal keys
        self._configs: dict[str, int] = {}
        self._rows: dict[str, dict[str, dict[str, Any]]] = {}

    def keep(self, entry: Entry, audited: AuditedEntry) -> None:
        """Keep an audit, unless the entry has one."""
        self._fresh.append((entry, audited))

    def extra(self) -> dict[str, Any]:
        """The `extra` of a recording with these audits; empty without one."""
        with self._lock:
            while self._fresh:
                (arch, kernel, key), audited = self._fresh.popleft()
                place = (arch, kernel, lookup_key(key))
                if place not in self._seen:
                    self._seen.add(place)
                    kernels = self._rows.setdefault(arch, {})
                    kernels.setdefault(kernel, {})[key] = audit_rows(audited, self._configs)
            if not self._rows:
                return {}
            rows = {arch: {name: dict(keys) for name, keys in kernels.items()} for arch, kernels in self._rows.items()}
            return {NAME: audit_document(rows, self._configs)}
