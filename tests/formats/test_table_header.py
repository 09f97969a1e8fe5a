"""What decides is in the selection digest, and a table states the rule that its content needs."""

from pathlib import Path
from typing import Any

from tuning_registry.formats.bans import Bans
from tuning_registry.formats.table import TunedTable, read_table, table_bytes, table_payload
from tuning_registry.formats.table_evidence import encode_evidence
from tuning_registry.formats.table_header import selection_digest
from tuning_registry.formats.table_problems import validate_table
from tuning_registry.model.canonical import config_text
from tuning_registry.model.slowdowns import FAILED


def config(block: int) -> dict[str, Any]:
    return {"kwargs": {"BLOCK": block}, "num_warps": 4, "num_stages": 3}


KERNELS = {"pkg.k": {"M=1": config(64), "M=2": config(128)}}
SMALL, LARGE = (config_text(config(block)) for block in (64, 128))
EVIDENCE = {"pkg.k": {"M=1": {SMALL: 0, LARGE: 30}, "M=2": {SMALL: FAILED, LARGE: 0}}}


def with_evidence(**more: Any) -> dict[str, Any]:
    return table_payload("sm90", KERNELS, extra={"evidence": encode_evidence(EVIDENCE), **more})


def test_a_table_with_evidence_states_rule_2_and_a_digest_that_covers_it(tmp_path: Path) -> None:
    plain, payload = table_payload("sm90", KERNELS)["tuning_registry"], with_evidence()
    ours = payload["tuning_registry"]
    assert "selection_rule" not in plain
    assert "selection_digest" not in plain
    assert ours["selection_rule"] == 2
    assert ours["digest"] == plain["digest"] != ours["selection_digest"]
    (tmp_path / "sm90.json").write_bytes(table_bytes(payload))
    table = read_table(tmp_path / "sm90.json")
    assert table.selection_digest == ours["selection_digest"]
    assert table.evidence == EVIDENCE
    assert validate_table(tmp_path / "sm90.json").problems == []


def test_the_selection_digest_changes_with_each_thing_that_decides() -> None:
    other = {"pkg.k": {**EVIDENCE["pkg.k"], "M=1": {SMALL: 0, LARGE: 31}}}
    ban = {"action": "ban", "kernel": "pkg.k", "key": "*", "config": config(32), "reason": "wrong"}
    digests = {
        TunedTable("sm90", KERNELS).selection_digest,
        with_evidence()["tuning_registry"]["selection_digest"],
        with_evidence(overrides=[ban])["tuning_registry"]["selection_digest"],
        table_payload("sm90", KERNELS, extra={"evidence": encode_evidence(other)})["tuning_registry"][
            "selection_digest"
        ],
        selection_digest("", {"evidence": encode_evidence(EVIDENCE), "selection_rule": 3}, Bans(())),
        selection_digest("", {"evidence": encode_evidence(EVIDENCE), "selection_rule": 2}, Bans(())),
    }
    assert len(digests) == 6
    assert with_evidence(policy="majority")["tuning_registry"]["selection_digest"] in digests


def test_evidence_on_a_key_or_kernel_that_the_table_lacks_is_left_out() -> None:
    evidence = {"pkg.k": {"M=1": {SMALL: 0}, "M=9": {SMALL: 0}}, "pkg.gone": {"M=1": {SMALL: 0}}}
    table = TunedTable("sm90", KERNELS, {"tuning_registry": {"evidence": encode_evidence(evidence)}})
    assert table.evidence == {"pkg.k": {"M=1": {SMALL: 0}}}


def test_validate_names_the_place_of_broken_evidence(tmp_path: Path) -> None:
    payload = with_evidence()
    rows = payload["tuning_registry"]["evidence"]["kernels"]["pkg.k"]["slowdowns"]
    digest = min(rows)
    rows[digest] = "0"
    (tmp_path / "sm90.json").write_bytes(table_bytes(payload))
    (problem,) = validate_table(tmp_path / "sm90.json").problems
    assert problem.field == f"tuning_registry/evidence/kernels/pkg.k/slowdowns/{digest}"
    assert "2 slowdowns in a string" in str(problem)
