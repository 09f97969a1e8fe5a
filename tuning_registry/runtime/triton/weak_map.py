"""A mapping with weak keys that are compared by identity."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class WeakIdentityMap(Generic[V]):
    """Values by object, for as long as the object lives.

    Unlike `weakref.WeakKeyDictionary`, it never asks an object for its hash or equality, which a user's class
    may define in any way, or not at all. Each change is one operation of a dict, so there is no lock that a
    fork or a signal handler could find held.
    """

    def __init__(self) -> None:
        self._items: dict[int, tuple[weakref.ref[Any], V]] = {}

    def get(self, thing: Any) -> V | None:
        """The value of `thing`; None if it has none."""
        item = self._items.get(id(thing))
        return item[1] if item is not None and item[0]() is thing else None

    def put(self, thing: Any, value: V) -> None:
        """Set the value of `thing`."""
        place, items = id(thing), self._items

        def forget(reference: weakref.ref[Any]) -> None:
            item = items.pop(place, None)
            if item is not None and item[0] is not reference:
                items.setdefault(place, item)  # a new object already has the address

        items[place] = (weakref.ref(thing, forget), value)

    def live(self) -> list[Any]:
        """The objects that are alive."""
        things = [reference() for reference, _ in self._items.copy().values()]
        return [thing for thing in things if thing is not None]
