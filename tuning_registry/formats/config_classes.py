"""Classes of configs: every config that has some stated fields, as a ban of `num_warps=8` means it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.matching import value_text
from tuning_registry.model.canonical import (
    DEFAULTS,
    FIELDS,
    NEUTRAL,
    config_text,
    dump_json,
    live_config_text,
    load_config,
)

_PLAIN = (int, float, str, type(None))
_NEEDED = tuple(name for name in FIELDS if name not in DEFAULTS)


def class_text(fields: object) -> str:
    """The canonical text of a class: `json.dumps(fields, sort_keys=True)` of some of the six fields of a config.

    A config belongs to the class if it has each of these fields with an equal value. Of `kwargs`, it must have each of
    the parameters that the class states. A text with all six fields is a config, not a class.

    Raises:
        FormatError: It states no field, all of them, an unknown one, or a value that no config can have.
    """
    if not isinstance(fields, Mapping):
        raise FormatError(f"expected a config object, found {describe(fields)}")
    if not fields or fields == {"kwargs": {}}:
        raise FormatError("expected at least one field of a config, found none")
    # Checked as a config is, with any legal value in place of the fields that it leaves open.
    open_fields: dict[str, object] = {"kwargs": {}, "num_warps": None, "num_stages": None}
    checked = load_config(config_text({**open_fields, **fields}))
    if not set(FIELDS) - fields.keys():
        raise FormatError("expected some of the fields of a config, found all of them")
    return dump_json({name: checked[name] for name in FIELDS if name in fields})


def is_partial(fields: Mapping[str, Any]) -> bool:
    """Whether an object lacks a field that every config needs, and so can only be a class."""
    return any(name not in fields for name in _NEEDED)


def is_class(text: str) -> bool:
    """Whether a text is a class and not a config."""
    try:
        return len(load_config(text)) < len(FIELDS)
    except (ValueError, RecursionError):
        return False


def covers(banned: str, text: str) -> bool:
    """Whether a text, of a config or of a class, means the config with the canonical text `text`."""
    return text in ConfigSet([banned])


class ConfigSet:
    """A set of configs, compared by value, some of them given as classes.

    Args:
        texts: Texts of configs and classes.
        wider: Further ones, of which `spared` are left out.
        spared: Texts of configs.
    """

    def __init__(self, texts: Iterable[str], wider: Iterable[str] = (), spared: Iterable[str] = ()) -> None:
        self._spared = {value_text(text) for text in spared}
        self._texts, self._classes = _split(texts)
        self._wider, self._wider_classes = _split(wider)
        self._wider -= self._spared

    def __contains__(self, text: object) -> bool:
        """Whether a config, given as its canonical text, is in the set."""
        if not self or not isinstance(text, str):
            return False
        spelt = value_text(text)
        if spelt in self._texts or spelt in self._wider or _is_in_one(self._classes, spelt):
            return True
        return spelt not in self._spared and _is_in_one(self._wider_classes, spelt)

    def forbids(self, candidate: object) -> bool:
        """Whether a live candidate is in the set.

        One that no table can hold has no text, but may belong to a class, or equal a config (`num_warps=True` is 1).
        """
        text = live_config_text(candidate)
        if text is not None:
            return text in self
        fields = _live_fields(candidate) if self else None
        if fields is None:
            return False
        if any(_has(fields, one) for one in (*self._classes.values(), *self._wider_classes.values())):
            return True
        configs = (load_config(one) for one in self._texts | self._wider)
        return _is_plain(candidate, fields) and any(_has(fields, one) and _has(one, fields) for one in configs)

    def __iter__(self) -> Iterator[str]:
        """The texts of the configs and classes, in order."""
        return iter(sorted({*self._texts, *self._wider, *self._classes, *self._wider_classes}))

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._texts or self._wider or self._classes or self._wider_classes)


def _split(texts: Iterable[str]) -> tuple[set[str], dict[str, dict[str, Any]]]:
    """Configs and classes, by value."""
    configs: set[str] = set()
    classes: dict[str, dict[str, Any]] = {}
    for text in map(value_text, texts):
        if is_class(text):
            classes[text] = load_config(text)
        else:
            configs.add(text)
    return configs, classes


def _is_in_one(classes: Mapping[str, Mapping[str, Any]], spelt: str) -> bool:
    if not classes:
        return False
    config = load_config(spelt)
    return any(_has(config, fields) for fields in classes.values())


def _live_fields(candidate: Any) -> dict[str, Any] | None:
    """The fields that a candidate passes to a launch, in the spelling of `_has`; None if it is no `triton.Config`."""
    try:
        passed = {**candidate.kwargs, **candidate.all_kwargs()}
        options = {name: passed.get(name, getattr(candidate, name, DEFAULTS.get(name))) for name in FIELDS[1:]}
        kwargs = {
            name: int(passed[name]) if isinstance(passed[name], bool) else passed[name] for name in candidate.kwargs
        }
    except Exception:  # noqa: BLE001 - as in `live_config_text`: a foreign object may raise anything
        return None
    return {"kwargs": {name: value for name, value in kwargs.items() if type(value) in _PLAIN}, **options}


def _is_plain(candidate: Any, fields: Mapping[str, Any]) -> bool:
    """Whether a candidate passes nothing to a launch but these fields."""
    passed = candidate.all_kwargs().keys() - fields["kwargs"].keys() - set(FIELDS)
    return not any(candidate.all_kwargs()[name] != NEUTRAL.get(name, object()) for name in passed)


def _has(config: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    """Whether a config has these fields; both are spelled by value."""
    for name, value in fields.items():
        if name == "kwargs":
            if not all(key in config["kwargs"] and config["kwargs"][key] == one for key, one in value.items()):
                return False
        elif config[name] != value:
            return False
    return True
