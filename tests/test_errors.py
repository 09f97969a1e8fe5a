"""The error tree: its drawing is right, and every error can be sent between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

from tuning_registry import errors
from tuning_registry.errors import FormatError, LaunchError, RecordingError, RegistryError


def tree(root: type[RegistryError]) -> list[type[RegistryError]]:
    """A class and those below it."""
    return [root, *(found for child in root.__subclasses__() for found in tree(child))]


# With other arguments than a message.
MADE = {
    FormatError: FormatError("expected an integer", ("sm90", "k")),
    RecordingError: RecordingError("rec.rank0.json", "expected an integer", ("sm90", "k\x1b")),
    LaunchError: LaunchError("banned", "no key"),
}


@pytest.mark.parametrize("kind", tree(RegistryError), ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_and_copying(kind: type[RegistryError]) -> None:
    error = MADE.get(kind) or kind("what is wrong")
    error.add_note("a note")
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error), pickle.loads(pickle.dumps(error, 0))):
        assert type(same) is kind
        assert (str(same), same.args, vars(same)) == (str(error), error.args, vars(error))
        assert isinstance(same, RegistryError)


def test_the_tree_is_drawn_as_it_is() -> None:
    drawing = errors.__doc__ or ""
    for kind in tree(RegistryError):
        (line,) = [line for line in drawing.splitlines() if f"{kind.__name__} " in line + " "]
        assert all(f"({base.__name__})" in line for base in kind.__bases__ if not issubclass(base, RegistryError)
                   and base is not Exception), kind  # fmt: skip
    assert drawing.count("Error") == len(tree(RegistryError)) + sum(
        drawing.count(f"({name})") for name in ("ValueError", "OSError", "RuntimeError")
    )
