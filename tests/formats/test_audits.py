"""Audits in the `extra` of recordings: there and back, growing, hostile, and of a newer version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import config
from tuning_registry.errors import FormatError
from tuning_registry.formats.audits import audit_document, audit_rows, read_audits
from tuning_registry.formats.recording_writer import recording_bytes
from tuning_registry.formats.recordings import parse_recording
from tuning_registry.model.audits import AuditedCandidate, AuditedEntry
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import Header, Recording

A, B, C = (config_text(config(B=size)) for size in (16, 32, 64))
ENTRY = AuditedEntry(
    inputs="0" * 16,
    is_seeded=True,
    candidates=(
        AuditedCandidate(B, "b" * 16, 0.0),
        AuditedCandidate(A, "a" * 16, 0.25, repeats=False, within=False),
        AuditedCandidate(C, "", None),
    ),
)
SKIPPED = AuditedEntry(skipped="x is a tensor descriptor")


def document(*entries: AuditedEntry) -> dict[str, Any]:
    numbers: dict[str, int] = {}
    rows = {f"M={place}": audit_rows(entry, numbers) for place, entry in enumerate(entries)}
    return {"audit": audit_document({"sm90": {"pkg.k": rows}}, numbers)}


def test_a_recording_gives_its_audits_back() -> None:
    header = Header(run="r", rank=0, id="0" * 32, extra=document(ENTRY, SKIPPED))
    recording = parse_recording(recording_bytes(Recording("", header, {})), "f")
    assert read_audits(recording.header.extra) == {"sm90": {"pkg.k": {"M=0": ENTRY, "M=1": SKIPPED}}}


def test_a_later_state_only_adds() -> None:
    numbers: dict[str, int] = {}
    early = audit_document({"sm90": {"pkg.k": {"M=0": audit_rows(ENTRY, numbers)}}}, dict(numbers))
    other = AuditedEntry(inputs="1" * 16, candidates=(AuditedCandidate(config_text(config(B=8)), "c" * 16, 0.0),))
    rows = {"M=0": audit_rows(ENTRY, numbers), "M=1": audit_rows(other, numbers)}
    late = audit_document({"sm90": {"pkg.k": rows}}, numbers)
    assert late["configs"][: len(early["configs"])] == early["configs"]
    assert late["entries"]["sm90"]["pkg.k"]["M=0"] == early["entries"]["sm90"]["pkg.k"]["M=0"]
    assert read_audits({"audit": late})["sm90"]["pkg.k"]["M=1"] == other


@pytest.mark.parametrize("extra", [{}, {"other": 1}, {"audit": {"version": 2, "anything": []}}])
def test_no_audit_and_one_of_a_newer_version_are_nothing(extra: Any) -> None:
    assert read_audits(extra) == {}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.update(audit=[]), "extra > audit"),
        (lambda d: d["audit"].update(configs=None), "configs"),
        (lambda d: d["audit"]["configs"].insert(0, {"kwargs": 1}), "configs"),
        (lambda d: d["audit"].update(entries=[]), "entries"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"].update({"M=0": 1}), "M=0"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"].update(inputs="xyz"), "inputs"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"].update(inputs=None), "inputs"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"].update(results={}), "results"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"]["results"].append([0]), "results"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"]["results"].append([9, "a" * 16, 0.0, 0]), "results"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"]["results"].append([-1, "a" * 16, 0.0, 0]), "results"),
        (
            lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"]["results"].append([True, "a" * 16, 0.0, 0]),
            "results",
        ),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"]["results"].append([0, "a" * 16, 0.0, 0]), "results"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"]["results"][0].__setitem__(1, "A" * 16), "results"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"]["results"][0].__setitem__(2, 3), "results"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"]["results"][0].__setitem__(2, None), "results"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=0"]["results"][0].__setitem__(3, "1"), "results"),
        (lambda d: d["audit"]["entries"]["sm90"]["pkg.k"]["M=1"].update(skipped=7), "skipped"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(change: Any, place: str) -> None:
    extra = json.loads(json.dumps(document(ENTRY, SKIPPED)))
    change(extra)
    with pytest.raises(FormatError) as caught:
        read_audits(extra)
    assert caught.value.path[:2] == ("extra", "audit")
    assert place.rpartition(" > ")[2] in caught.value.path


def test_classes_are_numbered_by_size_then_by_the_first_candidate() -> None:
    rows = [AuditedCandidate(text, digest * 16, 0.0) for text, digest in zip("pqrst", "abbcc", strict=True)]
    unstable = AuditedCandidate("u", "b" * 16, 0.1, repeats=False)
    entry = AuditedEntry(inputs="0" * 16, candidates=(*rows, unstable, AuditedCandidate("v", "", None)))
    assert entry.classes == {"q": 0, "r": 0, "s": 1, "t": 1, "p": 2}
