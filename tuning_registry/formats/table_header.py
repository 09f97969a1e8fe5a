"""The header of a table file: what may be in it, and the digests of what decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.bans import Bans
from tuning_registry.formats.files import kind_of
from tuning_registry.model.canonical import dump_json, text_digest
from tuning_registry.model.names import is_known_arch, normal_arch

EXTRA: Final = "tuning_registry"  # the one top-level object that this project adds to the seed's form
FORMAT_VERSION: Final = 1
# Version of the rule by which a table decides: `selection_rule` in EXTRA, and absent means 1. A table that was made for
# another rule must not decide by this one. Under rule 1, entries and bans decide, and a key without an entry may get
# the winner of the nearest key. Under rule 2, the table's evidence says which config that key gets.
# See docs/decisions.md, D57.
SELECTION_RULE: Final = 2
_RULE_OF_EVIDENCE: Final = 2

Kernels = Mapping[str, Mapping[str, Mapping[str, Any]]]


def kernels_digest(kernels: Kernels) -> str:
    """SHA-256 of `json.dumps(kernels, sort_keys=True)`."""
    return text_digest(dump_json(kernels))


def selection_digest(kernels: str, extra: object, bans: Bans) -> str:
    """SHA-256 of canonical JSON of what decides a launch: kernels, bans, evidence and the version of the rule.

    If there are neither bans nor evidence, and the rule is version 1, the kernels decide alone and their digest is
    the answer.

    Args:
        kernels: The digest of the kernels.
        extra: The object `tuning_registry` of the table, for `evidence` and `selection_rule`.
        bans: The bans of the table.
    """
    ours = extra if isinstance(extra, Mapping) else {}
    evidence, rule = ours.get("evidence"), ours.get("selection_rule", 1)
    if not bans and not evidence and rule == 1:
        return kernels
    return text_digest(dump_json({"kernels": kernels, "bans": bans.to_list(), "evidence": evidence, "rule": rule}))


def with_rule(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The object `tuning_registry` of a table, with the version of the rule that its content needs."""
    return {**extra, "selection_rule": _RULE_OF_EVIDENCE} if "evidence" in extra else dict(extra)


def _what_instead(document: object) -> str:
    if not isinstance(document, dict) or document.keys() & {"arch", "kernels"}:
        return ""
    found = kind_of(document)
    if found:
        return f"; this is {found}"
    if "format" in document or any(is_known_arch(normal_arch(name)) for name in document):
        return "; this is a recording. Make a table from it with registry merge"
    return ""


def check_shape(document: object) -> None:
    """Check everything in a table file but its kernels.

    Raises:
        FormatError: `path` leads to what is wrong.
    """
    if not isinstance(document, dict) or "arch" not in document or "kernels" not in document:
        raise FormatError(f"not a per-arch table: expected an object with arch and kernels{_what_instead(document)}")
    for name, kind in (("arch", str), ("kernels", dict), ("triton", str), ("packages", dict), ("source", str)):
        value = document.get(name, kind())
        if not isinstance(value, kind):
            raise FormatError(
                f"expected {'a string' if kind is str else 'an object'}, found {describe(value)}", (name,)
            )
    if not document["arch"]:
        raise FormatError("the name is empty", ("arch",))
    ours = document.get(EXTRA, {})
    if not isinstance(ours, dict):
        raise FormatError(f"expected an object, found {describe(ours)}", (EXTRA,))
    for name, known in (("version", FORMAT_VERSION), ("selection_rule", SELECTION_RULE)):
        version = ours.get(name, 1)
        if type(version) is not int or not 1 <= version <= known:
            newer = "; a newer tuning-registry may read it" if type(version) is int and version > known else ""
            expected = " or ".join(map(str, range(1, known + 1)))
            raise FormatError(f"expected {name} {expected}, found {describe(version)}{newer}", (EXTRA, name))
    if "evidence" in ours and ours.get("selection_rule", 1) < _RULE_OF_EVIDENCE:
        raise FormatError(
            f"expected {_RULE_OF_EVIDENCE} in a table with evidence, found {ours.get('selection_rule', 'nothing')}",
            (EXTRA, "selection_rule"),
        )
