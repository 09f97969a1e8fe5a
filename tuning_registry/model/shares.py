"""What a recording states about candidates that other ranks time: the `split` object of its `extra`.

    "split": {
     "repeats": 2,
     "candidates": {
      "sm90": {"pkg.kernel": {"configs": [CONFIG, ...], "keys": {"M=64|torch.float16": [0, 1, 4]}}}
     }
    }

`repeats` is how many ranks should time each candidate. `configs` holds the canonical texts of a kernel's candidates,
and `keys` lists for each key which of them, by position, pruning left. What this rank timed stands in `timings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.model.names import check_text

EXTRA: Final = "split"

Entry = tuple[str, str, str]  # arch, kernel, key


def encode_candidates(candidates: Mapping[Entry, Sequence[str]], repeats: int) -> dict[str, Any]:
    """The `split` object.

    Args:
        candidates: Canonical texts of all candidates that pruning left, by entry.
        repeats: How many ranks should time each candidate.
    """
    archs: dict[str, dict[str, Any]] = {}
    for (arch, kernel, key), texts in candidates.items():
        made = archs.setdefault(arch, {}).setdefault(kernel, {"configs": [], "keys": {}})
        places = {text: place for place, text in enumerate(made["configs"])}
        for text in texts:
            if text not in places:
                places[text] = len(places)
                made["configs"].append(text)
        made["keys"][key] = [places[text] for text in texts]
    return {"repeats": repeats, "candidates": archs}


def decode_candidates(stated: object) -> tuple[int, dict[Entry, tuple[str, ...]]]:
    """How many ranks should time each candidate, and all candidates by entry.

    Raises:
        FormatError: It is not a `split` object.
    """
    try:
        repeats = stated["repeats"]  # type: ignore[index]
        if type(repeats) is not int or repeats < 1:
            raise TypeError
        return repeats, dict(_entries(stated["candidates"]))  # type: ignore[index]
    except (AttributeError, IndexError, KeyError, TypeError):
        raise FormatError(
            f"expected an object with repeats and candidates, found {describe(stated)}", (EXTRA,)
        ) from None


def _entries(archs: Any) -> Iterator[tuple[Entry, tuple[str, ...]]]:
    for arch, kernels in archs.items():
        for kernel, made in kernels.items():
            configs = [check_text(text, (EXTRA,)) for text in made["configs"]]
            for key, places in made["keys"].items():
                if any(place < 0 for place in places):
                    raise IndexError
                for name in (arch, kernel, key):
                    check_text(name, (EXTRA,))
                yield (arch, kernel, key), tuple(configs[place] for place in places)
