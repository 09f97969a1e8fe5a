"""Audits in the database, on every database: ingested once, grown, and shown by every query that uses them."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, Json, config, version_2, write_recording
from tests.helpers import all_rows, error_of
from tuning_registry.db.store import Store
from tuning_registry.errors import RecordingError
from tuning_registry.formats.table import read_table
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import find_disagreements
from tuning_registry.operations.ingest.ingest import ingest
from tuning_registry.operations.reports.audits import find_audits, invariant_kernels
from tuning_registry.operations.reports.explain import explain
from tuning_registry.operations.reports.ranks import compare_ranks
from tuning_registry.registry import Registry

CONFIGS = [config(B=size) for size in (16, 32, 64, 128)]
TEXTS = [config_text(one) for one in CONFIGS]


def rows(digests: str, *, flags: Any = (0, 0, 0, 0), difference: float = 0.0) -> list[list[Any]]:
    """Results of the configs in order: a letter is a digest, `-` a failure."""
    return [
        [number, "" if letter == "-" else letter * 16, None if letter == "-" else (difference if flag else 0.0), flag]
        for number, (letter, flag) in enumerate(zip(digests, flags, strict=False))
    ]


def audit(entries: Json) -> Json:
    return {"audit": {"version": 1, "configs": CONFIGS, "entries": {"sm90": entries}}}


def recording(folder: Path, rank: int, votes: Json, entries: Json, **fields: Any) -> Path:
    """A recording of one rank with votes (numbers of configs) and audits."""
    chosen = {"sm90": {kernel: {key: CONFIGS[n] for key, n in keys.items()} for kernel, keys in votes.items()}}
    document = version_2(chosen, rank + 1, **fields, run="job", rank=rank, world_size=8,
                         extra={**audit(entries), "other": [rank]})  # fmt: skip
    return write_recording(folder / f"rec.rank{rank}.json", document)


def entry(digests: str, inputs: str = "0", **options: Any) -> Json:
    return {"inputs": inputs * 16, "results": rows(digests, **options)}


def test_what_audits_found_is_shown_for_each_entry(store: Store, tmp_path: Path) -> None:
    wrong = entry("aabb", flags=(0, 0, 0, 2), difference=0.5)
    recording(tmp_path, 0, {"pkg.k": {"M=1": 0}}, {"pkg.k": {"M=1": wrong, "M=2": {"skipped": "y is odd"}}})
    recording(tmp_path, 1, {"pkg.k": {"M=1": 0}}, {"pkg.k": {"M=1": entry("ddc-", "1", flags=(0, 0, 1, 0))}})
    ingest(store, [tmp_path])
    found, skipped = find_audits(store, Selection())
    assert (found.key, found.recordings, found.classes, dict(skipped.skipped)) == ("M=1", 2, 2, {"y is odd": 1})
    assert [one.config for one in found.configs] == TEXTS
    assert [one.number for one in found.configs] == [0, 0, None, 1]
    assert [(one.differs_on, one.outside_on, one.failed_on) for one in found.configs[2:]] == [(1, 0, 0), (0, 1, 1)]
    assert [(one.config, what) for one, what in found.findings] == [
        (TEXTS[2], "nondeterministic"),
        (TEXTS[3], "outside the tolerance"),
    ]
    assert str(skipped) == "sm90 pkg.k M=2: not audited (y is odd)"
    assert find_audits(store, Selection(kernel="other")) == []


def test_ranks_that_found_the_same_share_a_row_and_ingesting_again_changes_nothing(
    store: Store, tmp_path: Path
) -> None:
    for rank in range(4):
        recording(tmp_path, rank, {"pkg.k": {"M=1": 0}}, {"pkg.k": {"M=1": entry("aab"), "M=2": entry("aab")}})
    ingest(store, [tmp_path])
    counts = all_rows(store)
    assert (counts["audit_blocks"], counts["audits"]) == (1, 8)
    assert ingest(store, [tmp_path]).already == 4
    assert all_rows(store) == counts


def test_a_recording_that_grew_adds_its_audits(store: Store, tmp_path: Path) -> None:
    early = {"pkg.k": {"M=1": entry("aab")}}
    ingest(store, [recording(tmp_path / "a", 0, {"pkg.k": {"M=1": 0}}, early)])
    late = {"pkg.k": {"M=1": entry("aab"), "M=2": entry("abb")}}
    ingest(store, [recording(tmp_path / "b", 0, {"pkg.k": {"M=1": 0, "M=2": 1}}, late)])
    assert [(one.key, one.recordings, one.classes) for one in find_audits(store, Selection())] == [
        ("M=1", 1, 2),
        ("M=2", 1, 2),
    ]
    assert all_rows(store)["audits"] == 2


def test_extra_is_kept_without_what_has_its_own_tables(store: Store, tmp_path: Path) -> None:
    ingest(store, [recording(tmp_path, 0, {"pkg.k": {"M=1": 0}}, {"pkg.k": {"M=1": entry("aab")}})])
    with store.reading() as reading:
        from tuning_registry.db.schema import recordings

        (extra,) = reading.scalars(recordings.select().with_only_columns(recordings.c.extra))
    assert json.loads(extra) == {"other": [0]}


def test_an_audit_of_the_wrong_form_is_refused_with_its_place_and_nothing_is_written(
    store: Store, tmp_path: Path
) -> None:
    file = recording(tmp_path, 0, {"pkg.k": {"M=1": 0}}, {"pkg.k": {"M=1": {"inputs": "x", "results": []}}})
    with pytest.raises(RecordingError, match=r"extra.*audit.*M=1.*inputs"):
        ingest(store, [file])


@pytest.mark.parametrize(
    ("digests", "flags", "bits"),
    [
        ("aab", (0, 0, 0), "equal"),
        ("abb", (0, 0, 0), "different"),
        ("aab", (0, 1, 0), "different"),
        ("a-b", (0, 0, 0), "unknown"),
        ("", (), "unknown"),
    ],
)
def test_disagreements_say_whether_the_choices_give_equal_bits(
    store: Store, tmp_path: Path, digests: str, flags: Any, bits: str
) -> None:
    audits: Json = {"pkg.k": {"M=1": entry(digests, flags=flags)}} if digests else {}
    recording(tmp_path, 0, {"pkg.k": {"M=1": 0}}, audits)
    recording(tmp_path, 1, {"pkg.k": {"M=1": 1}}, {})
    ingest(store, [tmp_path])
    ((found,), _) = find_disagreements(store, Selection())
    assert (found.bits, found.to_dict()["bits"]) == (bits, bits)


def test_one_audit_that_finds_a_difference_is_enough(store: Store, tmp_path: Path) -> None:
    recording(tmp_path, 0, {"pkg.k": {"M=1": 0}}, {"pkg.k": {"M=1": entry("aab", "0")}})
    recording(tmp_path, 1, {"pkg.k": {"M=1": 1}}, {"pkg.k": {"M=1": entry("abb", "1")}})
    ingest(store, [tmp_path])
    ((found,), _) = find_disagreements(store, Selection())
    assert found.bits == "different"


def test_explain_shows_the_class_of_each_config(store: Store, tmp_path: Path) -> None:
    for rank, choice in enumerate((0, 0, 2)):
        recording(tmp_path, rank, {"pkg.k": {"M=1": choice}}, {"pkg.k": {"M=1": entry("aab")}})
    ingest(store, [tmp_path])
    (found,) = explain(store, Selection(arch="sm90", kernel="pkg.k")).entries
    audited = {one.config: one.to_dict()["audit"]["class"] for one in found.configs}
    assert audited == {TEXTS[0]: "A", TEXTS[2]: "B"}


def fleet(folder: Path, odd: int | None, ranks: int = 4, **options: Any) -> None:
    for rank in range(ranks):
        digests = "ccb" if rank == odd else "aab"
        recording(folder, rank, {"pkg.k": {"M=1": 0}}, {"pkg.k": {"M=1": entry(digests, **options)}})


def test_a_rank_that_alone_computes_something_else_is_an_outlier(store: Store, tmp_path: Path) -> None:
    fleet(tmp_path, odd=2)
    ingest(store, [tmp_path])
    (found,) = compare_ranks(store, Selection()).outliers
    assert (found.rank, found.outlier, found.audited, found.other_results) == (2, ("other results",), 3, 2)
    assert found.reasons == ("2 of 3 audited results differ from those of most ranks",)


def test_other_inputs_and_too_few_ranks_accuse_nobody(store: Store, tmp_path: Path) -> None:
    fleet(tmp_path / "a", odd=1, ranks=2)
    ingest(store, [tmp_path / "a"])
    assert compare_ranks(store, Selection()).outliers == []
    for rank in range(4):
        recording(
            tmp_path / "b", rank + 2, {"pkg.k": {"M=1": 0}}, {"pkg.k": {"M=1": entry("abcd"[rank] * 3, str(rank + 5))}}
        )
    ingest(store, [tmp_path / "b"])
    assert compare_ranks(store, Selection()).outliers == []


def test_a_candidate_that_does_not_repeat_itself_accuses_nobody(store: Store, tmp_path: Path) -> None:
    fleet(tmp_path, odd=2, flags=(1, 1, 0))
    ingest(store, [tmp_path])
    assert compare_ranks(store, Selection()).outliers == []


def test_a_kernel_whose_candidates_all_agree_may_be_timed_freely(store: Store, tmp_path: Path) -> None:
    entries = {
        "pkg.free": {"M=1": entry("aaa"), "M=2": entry("bb-")},
        "pkg.mixed": {"M=1": entry("aaa"), "M=2": entry("aab")},
        "pkg.single": {"M=1": entry("a--")},
        "pkg.skipped": {"M=1": entry("aaa"), "M=2": {"skipped": "no"}},
    }
    ingest(store, [recording(tmp_path, 0, {"pkg.free": {"M=1": 0}}, entries)])
    assert invariant_kernels(find_audits(store, Selection())) == ["pkg.free"]


def test_the_command_lists_findings_with_the_command_that_bans(cli: Cli, store: Store, tmp_path: Path) -> None:
    entries = {
        "pkg.k": {"M=1": entry("aab", flags=(0, 0, 2), difference=0.5)},
        "pkg.free": {"M=1": entry("aaa")},
        "pkg.race": {"M=1": entry("abc", flags=(0, 0, 1), difference=1e-6)},
    }
    timings = {"sm90": {"pkg.k": {"M=1": [[one, [1.0, 1.0, 1.0]] for one in CONFIGS]}}}
    path = recording(tmp_path, 0, {"pkg.k": {"M=1": 0}}, entries, timings=timings)
    assert cli("ingest", path).exit_code == 0
    shown = cli("audit")
    assert shown.exit_code == 0
    assert "pkg.k, key M=1:\n  B=64 num_warps=4 num_stages=3: outside the tolerance in 1 of 1 recording" in shown.stderr
    assert "nondeterministic in 1 of 1 recording" in shown.stderr
    assert "all candidates of these kernels give equal bits: config_invariant=pkg.free" in shown.stderr
    assert "3 audited entries, 2 with findings" in shown.stderr
    (line,) = [line for line in shown.stderr.splitlines() if "registry ban" in line]
    command = shlex.split(line.partition("run: registry ")[2])
    assert cli(*command).exit_code == 0
    assert cli("overrides", "--format", "json").stdout.count("outside the tolerance") == 1
    again = cli("audit")
    assert "  banned by override #1\n" in again.stderr
    assert "registry ban" not in again.stderr
    assert len(json.loads(cli("audit", "--findings", "--format", "json").stdout)) == 2
    table = list(csv.DictReader(io.StringIO(cli("audit", "--kernel", "pkg.k", "--format", "csv").stdout)))
    assert [(row["class"], row["outside_tolerance_on"]) for row in table] == [("A", "0"), ("A", "0"), ("B", "1")]
    assert [row["banned_by_override"] for row in table] == ["", "", "1"]
    assert cli("audit", "--exit-code").exit_code == 1
    assert "3 audited entries, 2 with findings, in 1 of them all are banned" in again.stderr
    assert cli("audit", "--kernel", "pkg.k", "--exit-code").exit_code == 0  # its only finding is banned
    assert cli("audit", "--kernel", "pkg.free", "--exit-code").exit_code == 0
    assert cli("audit", "--kernel", "nothing", "--exit-code").exit_code == 1
    assert "no recorded kernel belongs to this package" in error_of(cli("audit", "--package", "nobody=1"))


def test_without_a_majority_no_ban_is_suggested(cli: Cli, tmp_path: Path) -> None:
    entries = {"pkg.k": {"M=1": entry("abc", flags=(0, 2, 2), difference=2.0)}}
    cli("ingest", recording(tmp_path, 0, {"pkg.k": {"M=1": 0}}, entries))
    shown = cli("audit", "--exit-code")
    assert shown.exit_code == 1
    assert shown.stderr.count("outside the tolerance") == 2
    assert "\n  At most half of the candidates agree, so no ban is suggested.\n" in shown.stderr
    assert "registry ban" not in shown.stderr


def test_a_pin_that_lifts_a_ban_opens_the_finding_again(cli: Cli, tmp_path: Path) -> None:
    entries = {"pkg.k": {"M=1": entry("aab", flags=(0, 0, 2), difference=0.5)}}
    cli("ingest", recording(tmp_path, 0, {"pkg.k": {"M=1": 2}}, entries))
    name = ("--arch", "sm90", "--kernel", "pkg.k", "--config", "B=64 num_warps=4 num_stages=3", "--reason", "r")
    assert cli("ban", "--key", "*", *name).exit_code == 0
    assert cli("audit", "--exit-code").exit_code == 0
    assert cli("pin", "--key", "M=1", *name).exit_code == 0
    again = cli("audit", "--exit-code")
    assert again.exit_code == 1
    assert "banned by" not in again.stderr


def test_the_registry_has_the_same_answer(store: Store, database: str, tmp_path: Path) -> None:
    ingest(store, [recording(tmp_path, 0, {"pkg.k": {"M=1": 0}}, {"pkg.k": {"M=1": entry("aab")}})])
    with Registry(database) as registry:
        (found,) = registry.audits(kernel="pkg.k")
    assert found == find_audits(store, Selection())[0]
    assert str(found) == "sm90 pkg.k M=1: 3 candidates, 2 distinct results"


TIMED: Json = {"M=1": (3.0, 2.0, 1.0, 4.0), "M=2": (3.0, 2.0, 1.0, 4.0), "M=3": (3.0, 2.0, 1.0, 4.0)}


def timed(folder: Path, entries: Json) -> Path:
    times = {key: [[c, [t, t, t]] for c, t in zip(CONFIGS, row, strict=True)] for key, row in TIMED.items()}
    return recording(folder, 0, {"pkg.k": dict.fromkeys(TIMED, 2)}, entries, timings={"sm90": {"pkg.k": times}})


def test_a_faster_table_can_be_held_to_the_bits_of_the_one_in_use(cli: Cli, tmp_path: Path) -> None:
    same, other, none = entry("aab"), entry("abb"), {"skipped": "no"}
    cli("ingest", timed(tmp_path / "rec", {"pkg.k": {"M=1": same, "M=2": other, "M=3": none}}))
    kernels = {"pkg.k": {"M=1": CONFIGS[0], "M=2": CONFIGS[0], "M=3": CONFIGS[3]}}
    in_use = tmp_path / "in-use.json"
    in_use.write_text(json.dumps({"arch": "sm90", "kernels": kernels}))
    made = cli("export", "--arch", "sm90", "--policy", "fastest", "--same-bits-as", in_use)
    assert made.exit_code == 0, made.stderr
    table = json.loads(made.stdout)
    # M=1: the fastest of the class; M=2: nothing else is in the class; M=3: not audited.
    assert table["kernels"] == {"pkg.k": {"M=1": CONFIGS[1], "M=2": CONFIGS[0], "M=3": CONFIGS[3]}}
    free = json.loads(cli("export", "--arch", "sm90", "--policy", "fastest").stdout)
    assert free["kernels"]["pkg.k"] == dict.fromkeys(TIMED, CONFIGS[2])
    assert table["tuning_registry"]["same_bits_as"] == read_table(in_use).digest
    note = "2 entries kept the config of --same-bits-as: audits found no faster one with the same bits"
    assert note in made.stderr
    faster = tmp_path / "faster.json"
    faster.write_text(made.stdout)
    assert cli("check", faster).exit_code == 0
    table["kernels"]["pkg.k"]["M=2"] = CONFIGS[2]
    faster.write_text(json.dumps(table))
    assert cli("check", faster).exit_code == 1


def test_a_table_of_another_architecture_says_nothing_about_bits(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", timed(tmp_path / "rec", {"pkg.k": dict.fromkeys(TIMED, entry("aab"))}))
    in_use = tmp_path / "sm100.json"
    in_use.write_text(json.dumps({"arch": "sm100", "kernels": {"pkg.k": dict.fromkeys(TIMED, CONFIGS[0])}}))
    made = cli("export", "--arch", "sm90", "--policy", "fastest", "--same-bits-as", in_use)
    assert (made.exit_code, made.stdout) == (2, "")
    assert "this table is for sm100, not sm90; give the table for sm90 that is in use" in made.stderr


def test_a_check_needs_the_table_in_use_to_know_whether_the_bits_are_still_the_same(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", timed(tmp_path / "rec", {"pkg.k": dict.fromkeys(TIMED, entry("aab"))}))
    in_use, faster = tmp_path / "in-use.json", tmp_path / "faster.json"
    in_use.write_text(json.dumps({"arch": "sm90", "kernels": {"pkg.k": dict.fromkeys(TIMED, CONFIGS[0])}}))
    held = ("--same-bits-as", in_use)
    assert cli("export", "--arch", "sm90", "--policy", "fastest", *held, "-o", faster).exit_code == 0
    unknown = cli("check", faster)
    assert (unknown.exit_code, "note: not checked: whether its configs give the bits" in unknown.stderr) == (0, True)
    known = cli("check", faster, *held)
    assert (known.exit_code, "not checked: whether" in known.stderr) == (0, False)
    # Another audit finds that configs 0 and 1 differ for other values, so the faster table changes bits after all.
    recording(tmp_path / "more", 1, {"pkg.k": {"M=1": 1}}, {"pkg.k": {"M=1": entry("abb", "1")}})
    assert cli("ingest", tmp_path / "more").exit_code == 0
    found = cli("check", faster, *held)
    assert (found.exit_code, "pkg.k M=1" in found.stdout) == (1, True)
    in_use.write_text(json.dumps({"arch": "sm90", "kernels": {"pkg.k": dict.fromkeys(TIMED, CONFIGS[3])}}))
    assert "--same-bits-as has the digest" in error_of(cli("check", faster, *held))
    assert "was not exported with --same-bits-as" in error_of(cli("check", in_use, *held))


def test_a_key_that_the_table_does_not_decide_is_free_and_a_star_entry_decides(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", timed(tmp_path / "rec", {"pkg.k": dict.fromkeys(TIMED, entry("aab"))}))
    in_use = tmp_path / "in-use.json"
    for kernels, expected in (
        ({"pkg.k": {"M=1": CONFIGS[0]}}, [1, 2, 2]),
        ({"k": {"*": CONFIGS[0]}}, [1, 1, 1]),
        ({"other.k": {"M=1": CONFIGS[0]}}, [2, 2, 2]),
    ):
        in_use.write_text(json.dumps({"arch": "sm90", "kernels": kernels}))
        made = cli("export", "--arch", "sm90", "--policy", "fastest", "--same-bits-as", in_use)
        assert list(json.loads(made.stdout)["kernels"]["pkg.k"].values()) == [CONFIGS[n] for n in expected]


def test_equal_bits_need_a_policy_by_time(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", timed(tmp_path / "rec", {}))
    in_use = tmp_path / "in-use.json"
    in_use.write_text(json.dumps({"arch": "sm90", "kernels": {"pkg.k": {"M=1": CONFIGS[0]}}}))
    for options, why in (
        ((), "--same-bits-as needs --policy fastest"),
        (("--policy", "fastest", "--generalize", "3"), "--same-bits-as cannot be combined with --generalize"),
    ):
        refused = cli("export", "--arch", "sm90", "--same-bits-as", in_use, *options)
        assert refused.exit_code == 2
        assert why in refused.stderr
