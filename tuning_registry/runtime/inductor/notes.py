"""What generated code keeps about a user's kernel: its name, key and candidates, and what was decided.

Inductor renames the kernels that it generates code for, and drops the keys of their autotuners. It passes a dict
(`inductor_meta`) from the definition of a kernel to its launches, through compile workers and caches: the note is a
literal in it. See docs/decisions.md, D121.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any, Final

from tuning_registry.errors import FormatError
from tuning_registry.model.canonical import load_config
from tuning_registry.runtime.pinning.decision import Decision
from tuning_registry.runtime.triton.keys import Call

FIELD: Final = "tuning_registry"
VERSION: Final = 1

# A field of a key: its text, or the name of an argument whose size is dynamic and the size it was compiled for
# (None: not known before the launch).
KeyField = str | tuple[str, int | None]


class Candidate:
    """A config as a note holds it; has the attributes of a `triton.Config`.

    Args:
        text: Canonical text.
    """

    def __init__(self, text: str) -> None:
        self.kwargs: dict[str, Any] = {}
        self.num_warps: int | None = None
        self.num_stages: int | None = None
        self.text = text
        vars(self).update(load_config(text))


@dataclass(frozen=True, slots=True)
class Note:
    """The facts about a user's kernel in generated code.

    Attributes:
        module: Module of the kernel's function.
        function: Its name.
        source: SHA-256 of its source; None if there is none.
        key: The fields of the shape key; None if the call has none.
        declared: Canonical texts of the autotuner's configs.
        pruned: Those of the candidates that pruning left, if a size is dynamic.
        configs: Those of the candidates that the generated code has, in their order.
        decisions: What a pinned job launches: text, source, miss, kernel and key of the entry. The second one is for
            the case that the first one does not run. Empty if Inductor times the candidates, or if a size is dynamic.
        is_fused: Whether Inductor has fused other operations into the kernel, so that its timings are not the kernel's.
    """

    module: str
    function: str
    source: str | None
    key: tuple[KeyField, ...] | None
    declared: tuple[str, ...]
    pruned: tuple[str, ...]
    configs: tuple[str, ...]
    decisions: tuple[tuple[str | None, str, str, str, str], ...] = ()
    is_fused: bool = False

    def literal(self) -> dict[str, Any]:
        """The note as a Python literal."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def of(cls, autotuner: Any) -> Note | None:
        """The note of a kernel in generated code; None without one that this version reads."""
        stated = (getattr(autotuner, "inductor_meta", None) or {}).get(FIELD)
        if not isinstance(stated, dict) or stated.get("version") != VERSION:
            return None
        return cls(**{name: value for name, value in stated.items() if name != "version"})

    @property
    def is_dynamic(self) -> bool:
        """Whether a size in its key is dynamic."""
        return any(not isinstance(field, str) for field in self.key or ())

    def key_of(self, arguments: Mapping[str, Any] | None = None) -> str | None:
        """The shape key of a launch; None if there is none, or if it is not known before the launch.

        Args:
            arguments: The arguments of the launch by name; None for those that the kernel was compiled for.
        """
        if self.key is None:
            return None
        fields = []
        for field in self.key:
            if isinstance(field, str):
                fields.append(field)
                continue
            name, size = field
            size = size if arguments is None else arguments.get(name, size)
            if size is None:
                return None
            fields.append(f"{name}={size}")
        return "|".join(fields)


class CompiledKernel:
    """Stands for the autotuner of a kernel in generated code.

    Attributes:
        note: The note.
        configs: The configs of the autotuner.
        pruned: Those that pruning left, if a size is dynamic.
        candidates: Those that the generated code has.
        source_hash: SHA-256 of the function's source.
    """

    def __init__(self, note: Note) -> None:
        self.note = note
        self.configs = [Candidate(text) for text in note.declared]
        by_text = {config.text: config for config in self.configs}
        self.pruned = [by_text[text] for text in note.pruned]
        self.candidates = [by_text[text] for text in note.configs]
        self.base_fn = SimpleNamespace(__module__=note.module, __name__=note.function)
        self.source_hash = note.source
        self.keys: Sequence[str] = ()
        self.arg_names: Sequence[str] = ()

    def find(self, config: Any) -> Candidate | None:
        """The candidate that a config of Inductor is."""
        found: Candidate | None = find_config(config, self.candidates)
        return found


class CompiledCall(Call):
    """A launch of a kernel in generated code.

    Args:
        kernel: The kernel.
        key: Its shape key; None if it has none.
    """

    __slots__ = ("_key",)

    def __init__(self, kernel: CompiledKernel, key: str | None) -> None:
        super().__init__(kernel, (), {})
        self._key = key

    @property
    def key(self) -> str:
        """The shape key; raises FormatError if there is none."""
        if self._key is None:
            raise FormatError("the key of this launch has no stable text")
        return self._key

    def other_keys(self, key: str) -> list[str]:  # noqa: ARG002 - as in its class
        """Spellings by other tools: none, since the arguments are not known."""
        return []

    @property
    def has_tensor_key(self) -> bool:
        """Whether one of the key values is a tensor: such a call has no key here."""
        return False


def decision_of(stated: Sequence[Any], candidates: Sequence[Candidate]) -> Decision[Any]:
    """The decision of a note, with its candidate."""
    text, source, miss, kernel, key = stated
    return Decision(next((c for c in candidates if c.text == text), None), source, miss, (kernel, key))


def find_config(config: Any, candidates: Sequence[Any]) -> Any:
    """The candidate that a config of Inductor was made from; None if there is none.

    Inductor's config has the values of heuristics as further kwargs, and no launch fields but warps and stages.
    """
    found = [
        candidate
        for candidate in candidates
        if (candidate.num_warps, candidate.num_stages) == (config.num_warps, config.num_stages)
        and all(name in config.kwargs and _same(config.kwargs[name], value) for name, value in candidate.kwargs.items())
    ]
    return max(found, key=lambda candidate: len(candidate.kwargs), default=None)


def _same(one: object, other: object) -> bool:
    """Whether two values of a kwarg are one: a text has lists for tuples."""
    listed = [list(value) if isinstance(value, tuple) else value for value in (one, other)]
    return bool(listed[0] == listed[1])
