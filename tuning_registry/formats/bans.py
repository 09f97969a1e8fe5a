"""The bans that a table carries, and the configs that they forbid for a kernel and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.config_classes import ConfigSet, class_text
from tuning_registry.formats.matching import value_text
from tuning_registry.model.canonical import DEFAULTS, FIELDS, config_text, dump_json, parse_config
from tuning_registry.model.names import ANY_KEY, bare_name, check_text, is_positional, lookup_key, positional_key

_BAN: Final = "ban"
_PIN: Final = "pin"
_LEAST: Final = {"kwargs": {}, "num_warps": None, "num_stages": None, **DEFAULTS}  # for the open fields of a class

Place = tuple[str, str]  # kernel and key, in lookup spelling


class Bans:
    """The bans of a table. A config that is banned for a key is never launched for it, whatever chose it.

    A ban of the key `*` holds for every key of its kernel, and a ban of a bare name for every kernel of that function
    name. A pin of the same config for exactly this kernel and key lifts the bans of wider places, and no ban of the
    same place. Configs are compared by value (`matching.value_text`). A ban may name a class of configs: fewer than the
    six fields of a config, such as `{"num_warps": 8}` (`config_classes`).

    Args:
        overrides: The list `tuning_registry.overrides` of a table: objects with `action`, `kernel`, `key`, `config`.

    Raises:
        FormatError: It is not such a list; `path` leads to the item.
    """

    def __init__(self, overrides: object = ()) -> None:
        self._banned: dict[Place, set[str]] = {}
        self._pinned: dict[Place, set[str]] = {}
        if not isinstance(overrides, list | tuple):
            raise FormatError(f"expected an array of overrides, found {describe(overrides)}")
        for number, item in enumerate(overrides):
            try:
                self._add(item)
            except FormatError as fault:
                raise fault.under(str(number)) from fault

    def __bool__(self) -> bool:
        """Whether anything is banned."""
        return bool(self._banned)

    def may_touch(self, kernel: str) -> bool:
        """Whether a ban names this kernel or its function name, for whatever key."""
        names = {kernel, bare_name(kernel)}
        return any(place[0] in names for place in self._banned)

    def at(self, kernel: str, key: str | None, other_spellings: Sequence[str] = ()) -> ConfigSet:
        """The configs that are banned for a kernel and key.

        Args:
            kernel: Qualified or bare name.
            key: Shape key; None for a call whose key has no text, to which only bans of `*` apply.
            other_spellings: Keys that other tools write for the same call: a ban of their recordings has one of them.
        """
        names = dict.fromkeys((kernel, bare_name(kernel)))
        keys = () if key is None else (key, *other_spellings)
        exact = [*dict.fromkeys(spelt for one in keys for spelt in (lookup_key(one), positional_key(one)))]
        here = {text for spelt in exact for text in self._banned.get((kernel, spelt), ())}
        wider = {text for name in names for spelt in [*exact, ANY_KEY] for text in self._banned.get((name, spelt), ())}
        lifted = {text for spelt in exact for text in self._pinned.get((kernel, spelt), ())}
        return ConfigSet(here, wider, lifted)

    def anywhere(self, kernel: str) -> ConfigSet:
        """The configs that are banned for some key of a kernel."""
        names = {kernel, bare_name(kernel)}
        return ConfigSet(text for place, texts in self._banned.items() if place[0] in names for text in texts)

    def forbids(self, kernel: str, key: str | None, text: str | None, other_spellings: Sequence[str] = ()) -> bool:
        """Whether a config (canonical text; None for a config without one) is banned for a kernel and key."""
        return text is not None and self.may_touch(kernel) and text in self.at(kernel, key, other_spellings)

    def to_list(self) -> list[list[Any]]:
        """What decides, in an order that does not depend on the file: `[action, kernel, key, [config, ...]]`."""
        banned = ConfigSet(text for texts in self._banned.values() for text in texts)
        pinned = {place: {text for text in texts if text in banned} for place, texts in self._pinned.items()}
        return sorted(
            [action, *place, sorted(texts)]
            for action, places in ((_BAN, self._banned), (_PIN, pinned))
            for place, texts in places.items()
            if texts
        )

    def _add(self, item: object) -> None:
        if not isinstance(item, Mapping):
            raise FormatError(f"expected an override object, found {describe(item)}")
        action, kernel, key = (check_text(_field(item, name), (name,)) for name in ("action", "kernel", "key"))
        if action not in {_BAN, _PIN}:
            raise FormatError(f"expected {_BAN} or {_PIN}, found {describe(action)}", ("action",))
        text = _text_of(_field(item, "config"), may_be_class=action == _BAN)
        if text is not None:
            spelt = positional_key(key) if is_positional(key) else lookup_key(key)
            places = self._banned if action == _BAN else self._pinned
            places.setdefault((kernel, spelt), set()).add(value_text(text))


def _field(item: Mapping[Any, Any], name: str) -> object:
    if name not in item:
        raise FormatError(f"required field {name!r} is missing")
    return item[name]


def _text_of(config: object, *, may_be_class: bool) -> str | None:
    """The text of an override's config or class; None if no candidate can have it, because an option is out of range."""
    try:
        if may_be_class and isinstance(config, Mapping) and len(config) < len(FIELDS):
            return class_text(config)
        return config_text(config)
    except FormatError as fault:
        if isinstance(config, Mapping) and config and config != {"kwargs": {}}:
            try:
                parse_config(dump_json({**_LEAST, **config} if may_be_class else {**DEFAULTS, **config}))
            except (FormatError, TypeError, ValueError):
                pass
            else:
                return None
        raise fault.under("config") from fault
