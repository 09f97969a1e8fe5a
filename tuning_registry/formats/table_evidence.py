r"""A table's evidence on candidates that did not win: their slowdowns on the recorded keys, in a few bytes each.

The rule for unseen keys (`rules.nearest`) reads them. They are the `evidence` object inside the table's
`tuning_registry` object, where other readers of the table do not look:

    "evidence": {
     "version": 1,
     "kernels": {
      "pkg.kernel": {
       "configs": ["[[\"BLOCK\"],{\"num_stages\":3},[\"num_warps\"],[64,4],[128,4],[128,8]]"],
       "slowdowns": {"0f5b86a8c6a1": "0 12 x", "c13f9c1a4b77": "31 0 -"}
      }
     }
    }

`configs` lists the candidates in columns. Each string is a JSON array for candidates that have the same kernel
parameters: the names of these parameters, the launch options that all of them share (those left out have Triton's
defaults), the names of the options in which they differ, then for each candidate the values of both in this order.
`slowdowns` has a row for each key, under the first 12 hexadecimal digits of the SHA-256 of the key's text: for each
candidate, in the order of `configs`, how many percent slower than the fastest it was (0 to 999, and 999 is also
everything above), `x` if it failed there, or `-` if it was not timed. A row whose key has left the table is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.model.canonical import (
    DEFAULTS,
    FIELDS,
    config_text,
    dump_json,
    load_config,
    parse_integer,
    text_digest,
)
from tuning_registry.model.slowdowns import FAILED, MOST_PERCENT, Slowdowns

VERSION: Final = 1
_KEY_DIGITS: Final = 12
_FAILED: Final = "x"
_UNTIMED: Final = "-"
_VALUES: Final = {_FAILED: FAILED, **{str(percent): percent for percent in range(MOST_PERCENT + 1)}}
_CELL: Final = "(?:0|[1-9][0-9]{0,2}|x|-)"
_ROW: Final = re.compile(f"{_CELL}(?: {_CELL})*")
_LAUNCH: Final = FIELDS[1:]

# By kernel and key.
Evidence = Mapping[str, Mapping[str, Slowdowns]]


def encode_evidence(evidence: Evidence) -> dict[str, Any]:
    """The `evidence` object of a table.

    Args:
        evidence: Slowdowns by kernel, key and candidate (`encode_kernel`).

    Raises:
        FormatError: As for `encode_kernel`.
    """
    return evidence_object({kernel: encode_kernel(kernel, keys) for kernel, keys in evidence.items()})


def evidence_object(kernels: Mapping[str, Any]) -> dict[str, Any]:
    """The `evidence` object of a table, from what `encode_kernel` returned for each kernel."""
    return {"version": VERSION, "kernels": dict(kernels)}


def encode_kernel(kernel: str, keys: Mapping[str, Slowdowns]) -> dict[str, Any]:
    """The evidence of one kernel.

    Args:
        kernel: Its name, for errors.
        keys: Slowdowns by key: from 0 to 999 percent, or FAILED; a candidate that was not timed on a key is left out.

    Raises:
        FormatError: A slowdown is out of range, or two keys have one digest.
    """
    columns, groups = _columns({text for row in keys.values() for text in row})
    rows: dict[str, str] = {}
    for key, row in keys.items():
        digest = _key_digest(key)
        if digest in rows:
            raise FormatError("its digest is also that of another key", (kernel, key))
        try:
            rows[digest] = " ".join(_cell(row.get(text)) for text in columns)
        except FormatError as fault:
            raise fault.under(kernel, key) from None
    return {"configs": groups, "slowdowns": rows}


class KernelEvidence(Mapping[str, Slowdowns]):
    """The slowdowns of one kernel's candidates by key, read from their text when a key is asked for.

    Args:
        configs: The candidates in the order of their columns.
        rows: The text of each key's row, as `decode_evidence` has checked it.
    """

    def __init__(self, configs: Sequence[str], rows: Mapping[str, str]) -> None:
        self.configs = tuple(configs)
        self._rows = rows

    def __getitem__(self, key: str) -> Slowdowns:
        """The slowdown of each candidate that was timed on a key."""
        cells = map(_VALUES.get, self._rows[key].split(" "))
        return {text: value for text, value in zip(self.configs, cells, strict=False) if value is not None}

    def __iter__(self) -> Iterator[str]:
        """The keys that have a row."""
        return iter(self._rows)

    def __len__(self) -> int:
        """The number of keys that have a row."""
        return len(self._rows)


def decode_evidence(document: object, keys: Mapping[str, Iterable[str]]) -> dict[str, KernelEvidence]:
    """The slowdowns that an `evidence` object states, by kernel and key; the inverse of `encode_evidence`.

    Every row is checked here and converted later, since a job needs few of them.

    Args:
        document: The object.
        keys: The table's keys by kernel. Rows of other keys and kernels are checked and left out.

    Raises:
        FormatError: Not such an object, or one of a newer version; `path` leads to what is wrong.
    """
    stated = _object(document, ())
    version = stated.get("version")
    if type(version) is not int or version != VERSION:
        newer = "; a newer tuning-registry may read it" if type(version) is int and version > VERSION else ""
        raise FormatError(f"expected evidence version {VERSION}, found {describe(version)}{newer}", ("version",))
    found: dict[str, KernelEvidence] = {}
    for kernel, value in _object(stated.get("kernels"), ("kernels",)).items():
        try:
            configs, rows = _kernel_rows(value)
        except FormatError as fault:
            raise fault.under("kernels", kernel) from None
        known = {key: rows[digest] for key in keys.get(kernel, ()) if (digest := _key_digest(key)) in rows}
        if known:
            found[kernel] = KernelEvidence(configs, known)
    return found


def _key_digest(key: str) -> str:
    return text_digest(key)[:_KEY_DIGITS]


def _cell(percent: int | None) -> str:
    if percent is None:
        return _UNTIMED
    if type(percent) is not int or not (percent == FAILED or 0 <= percent <= MOST_PERCENT):
        raise FormatError(f"expected a slowdown from 0 to {MOST_PERCENT} percent, found {describe(percent)}")
    return _FAILED if percent == FAILED else str(percent)


def _columns(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """The candidates in the order of their columns, and the strings that state them in that order."""
    groups: dict[tuple[str, ...], list[tuple[str, dict[str, Any]]]] = {}
    for text in sorted(texts):
        config = load_config(text)
        groups.setdefault(tuple(sorted(config["kwargs"])), []).append((text, config))
    columns: list[str] = []
    stated: list[str] = []
    for names, members in sorted(groups.items()):
        # Told apart by their JSON: true, 1 and 1.0 are three values.
        varying = [name for name in _LAUNCH if len({dump_json(config[name]) for _, config in members}) > 1]
        first = members[0][1]
        shared = {
            name: first[name]
            for name in _LAUNCH
            if name not in varying and (name not in DEFAULTS or first[name] != DEFAULTS[name])
        }
        rows = [[*(config["kwargs"][name] for name in names), *(config[name] for name in varying)]
                for _, config in members]  # fmt: skip
        stated.append(_compact([list(names), shared, varying, *rows]))
        columns += [text for text, _ in members]
    return columns, stated


def _compact(value: object) -> str:
    """JSON without spaces between its parts; `dump_json` writes it, since it can write every integer."""
    if isinstance(value, list):
        return "[" + ",".join(map(_compact, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{dump_json(name)}:{_compact(item)}" for name, item in sorted(value.items())) + "}"
    return dump_json(value)


def _kernel_rows(value: object) -> tuple[list[str], dict[str, str]]:
    """The candidates of one kernel in the order of their columns, and the text of each row by digest of the key."""
    stated = _object(value, ())
    groups = stated.get("configs")
    if not isinstance(groups, list):
        raise FormatError(f"expected an array of strings, found {describe(groups)}", ("configs",))
    columns: list[str] = []
    for index, group in enumerate(groups):
        try:
            columns += _group_texts(group)
        except FormatError as fault:
            raise fault.under("configs", str(index)) from None
    if len(set(columns)) != len(columns):
        raise FormatError("one candidate has two columns", ("configs",))
    rows = _object(stated.get("slowdowns"), ("slowdowns",))
    return columns, {digest: _checked_row(text, len(columns), ("slowdowns", digest)) for digest, text in rows.items()}


def _group_texts(group: object) -> list[str]:
    """The canonical texts of candidates with the same kernel parameters."""
    if not isinstance(group, str):
        raise FormatError(f"expected a string, found {describe(group)}")
    try:
        parts = json.loads(group, parse_int=parse_integer)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from error
    if not isinstance(parts, list) or len(parts) < 3:
        raise FormatError("expected an array of names, options and candidates")
    names, shared, varying, *rows = parts
    if not (_is_names(names) and isinstance(shared, dict) and _is_names(varying)):
        raise FormatError("expected names of parameters, an object of launch options, and names of launch options")
    if (set(varying) | shared.keys()) - set(_LAUNCH) or set(varying) & shared.keys():
        raise FormatError(f"expected launch options among {', '.join(_LAUNCH)}, each once")
    width = len(names) + len(varying)
    texts = []
    for place, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != width:
            raise FormatError(f"expected an array of {width} values, found {describe(row)}", (str(place),))
        options = dict(zip(varying, row[len(names) :], strict=True))
        kwargs = dict(zip(names, row, strict=False))
        try:
            texts.append(config_text({**shared, **options, "kwargs": kwargs}))
        except FormatError as fault:
            raise fault.under(str(place)) from None
    return texts


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _checked_row(text: object, width: int, path: tuple[str, ...]) -> str:
    found = 0 if not isinstance(text, str) or not text else text.count(" ") + 1
    if not isinstance(text, str) or found != width:
        raise FormatError(f"expected {width} slowdowns in a string, found {describe(text)}", path)
    if text and not _ROW.fullmatch(text):
        wrong = next(cell for cell in text.split(" ") if not re.fullmatch(_CELL, cell))
        raise FormatError(f"expected 0 to {MOST_PERCENT}, x or -, found {describe(wrong)}", path)
    return text


def _object(value: object, path: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected an object, found {describe(value)}", path)
    return value
