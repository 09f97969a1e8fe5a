"""The common interface of all results: JSON-ready dicts and one readable line."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any


class Result(ABC):
    """A value that an operation returns.

    `to_dict` has the names that `--format json` prints, so `pandas.DataFrame([r.to_dict() for r in results])` is a
    table. `str()` is one line for people.
    """

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""

    @abstractmethod
    def __str__(self) -> str:
        """One readable line."""

    def __repr__(self) -> str:
        """The same line with the type's name, for notebooks and debuggers."""
        return f"<{type(self).__name__}: {self}>"


def rounded(value: float | None, digits: int = 2) -> float | None:
    """A figure as JSON holds it; None if it is unknown or not finite (the slowdown of a config that failed)."""
    return None if value is None or not math.isfinite(value) else round(value, digits)
