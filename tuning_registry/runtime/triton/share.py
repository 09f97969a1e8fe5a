"""The candidates that this rank times of a key, when the ranks of a job share the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

SHARE: Final = "share"  # as the source of a choice: the best of the candidates that this rank timed


class Share(list[Any]):
    """Live candidates that take the place of all those that pruning left.

    Triton reads it as its list of candidates. It times nothing if there is only one, so a share of one candidate
    holds it twice; its second timing is the first one again. If no candidate of the share runs, the others follow
    one by one: a job never ends because of its share.

    Args:
        mine: The candidates of this rank.
        whole: All candidates that pruning left, at least two.
    """

    def __init__(self, mine: Sequence[Any], whole: Sequence[Any]) -> None:
        super().__init__(mine if len(mine) != 1 else [*mine, *mine])
        self._rest = [one for one in whole if not any(one is other for other in mine)]

    def go_on(self) -> bool:
        """Take in one more candidate, since none so far has run; False if there is none left."""
        if not self._rest:
            return False
        self.append(self._rest.pop(0))
        return True
