"""The command line: streams, exit statuses, formats, help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.conftest import H200, ROOT, Cli, config, run_registry, write_ranks, write_recording
from tests.helpers import many_keys
from tuning_registry.cli.app import app
from tuning_registry.model.names import rank_ranges
from tuning_registry.operations.ingest import notices

GOLDEN = ROOT / "tests" / "golden"
A, B = config(B=16), config(B=8, num_warps=8)


def all_commands() -> list[str]:
    """Every command, groups first: `ingest`, `runs`, `runs withdraw`, ..."""

    def walk(command: Any, name: str) -> list[str]:
        below = getattr(command, "commands", {})
        return [name, *(found for key, child in below.items() for found in walk(child, f"{name} {key}".strip()))]

    return [name for name in walk(typer.main.get_command(app), "") if name]


def check_golden(name: str, text: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / name
    if request.config.getoption("--rewrite-golden") and (not path.exists() or path.read_text() != text):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text, f"{name} differs; pytest --rewrite-golden takes the new one"


def test_help_of_every_command(request: pytest.FixtureRequest) -> None:
    text = ""
    for command in ["", *all_commands()]:
        done = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="registry")
        assert (done.exit_code, done.stderr) == (0, "")
        text += f"$ registry {command}\n{done.stdout}\n"
    check_golden("help.txt", "\n".join(line.rstrip() for line in text.splitlines()) + "\n", request)


@pytest.mark.parametrize("command", ["winners", "disagreements"])
@pytest.mark.parametrize("style", ["table", "json", "csv", "markdown"])
def test_output_on_the_real_recordings(
    command: str, style: str, sqlite_cli: Cli, request: pytest.FixtureRequest
) -> None:
    sqlite_cli("ingest", H200, "--run", "demo", "--triton", "3.6.0")
    result = sqlite_cli(command, "--format", style)
    assert result.exit_code == 0
    suffix = {"table": "txt", "markdown": "md"}.get(style, style)
    check_golden(f"{command}.{suffix}", result.stdout, request)


def test_markdown_of_costs(sqlite_cli: Cli, request: pytest.FixtureRequest) -> None:
    sqlite_cli("ingest", H200, "--run", "demo", "--triton", "3.6.0")
    check_golden("costs.md", sqlite_cli("disagreements", "--cost", "--format", "markdown").stdout, request)


def test_markdown_of_a_difference_and_a_check(sqlite_cli: Cli, tmp_path: Path) -> None:
    sqlite_cli("ingest", write_ranks(tmp_path, [A, A, B], key="M=1|torch.bfloat16")[0], "--run", "a|b")
    table, edited = tmp_path / "sm90.json", tmp_path / "edited.json"
    sqlite_cli("export", "--arch", "sm90", "-o", table)
    edited.write_text(table.read_text().replace('"num_warps": 4', '"num_warps": 8'))
    differing = sqlite_cli("diff", table, edited, "--format", "markdown").stdout.splitlines()
    assert differing[0] == f"### `{table}` and `{edited}`: 1 changed"
    assert differing[-1].startswith(r"| changed | k | `M=1\|torch.bfloat16` | `")
    checked = sqlite_cli("check", edited, "--format", "markdown")
    assert checked.exit_code == 1
    lines = checked.stdout.splitlines()
    assert (lines[0], lines[2]) == (f"### `{edited}`: 2 problems", "| Kind | Problem |")
    assert [line.split(" | ")[0] for line in lines[4:6]] == ["| edited", "| changed"]
    good = sqlite_cli("check", table, "--format", "json")
    assert (good.exit_code, json.loads(good.stdout)["good"]) == (0, True)


@pytest.mark.parametrize("style", ["table", "csv", "json"])
def test_a_check_in_every_format_has_its_problems(style: str, sqlite_cli: Cli, tmp_path: Path) -> None:
    sqlite_cli("ingest", write_ranks(tmp_path, [A])[0])
    table = tmp_path / "sm90.json"
    sqlite_cli("export", "--arch", "sm90", "-o", table)
    table.write_text(table.read_text().replace('"num_warps": 4', '"num_warps": 8'))
    result = sqlite_cli("check", table, "--format", style)
    assert result.exit_code == 1
    assert "its entries have the digest" in result.stdout


def test_the_table_is_golden(sqlite_cli: Cli, request: pytest.FixtureRequest) -> None:
    sqlite_cli("ingest", H200, "--run", "demo", "--triton", "3.6.0")
    check_golden("sm90.json", sqlite_cli("export", "--arch", "sm90").stdout, request)


def test_json_of_a_disagreement(cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path / "in", [A, B, A])
    cli("ingest", tmp_path / "in", "--run", "demo")
    result = cli("disagreements", "--format", "json")
    assert json.loads(result.stdout) == [
        {
            "arch": "sm90", "kernel": "k", "key": "M=1", "tie": False, "sources": 0, "bits": "unknown", "triton": "", "package": "",
            "version": "",
            "device": "",
            "choices": [
                {"config": A, "votes": 2, "ranks": [0, 2], "runs": {"demo": [0, 2]}},
                {"config": B, "votes": 1, "ranks": [1], "runs": {"demo": [1]}},
            ], "total_votes": 3,
        }
    ]  # fmt: skip


def test_data_on_stdout_and_messages_on_stderr(cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path / "in", [A, B])
    ingested = cli("ingest", tmp_path / "in", "--run", "demo")
    assert ingested.stdout == ""
    assert ingested.stderr.startswith("database: ")
    assert ingested.stderr.endswith(
        "created a new registry in this database\ningested 2 recordings, 2 votes, 1 new entry\n"
    )
    for command in (("winners",), ("disagreements",), ("runs",), ("status",), ("export", "--arch", "sm90")):
        result = cli(*command)
        assert result.exit_code == 0
        assert "database: " in result.stderr
        assert result.stdout
    assert json.loads(cli("export", "--arch", "sm90", "-o", "-").stdout)["arch"] == "sm90"


def test_db_is_taken_before_and_after_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str) -> Result:
        return CliRunner().invoke(app, words, prog_name="registry")

    one, two, three = (f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "two", "three"))
    monkeypatch.setenv("TUNING_REGISTRY_DB", three)
    assert run("--db", one, "db", "path").stdout.strip() == one
    assert run("db", "path", "--db", one).stdout.strip() == one
    assert run("--db", two, "db", "path", "--db", one).stdout.strip() == one
    assert run("db", "path").stdout.strip() == three
    assert run("runs", "--db", one, "withdraw", "x").stderr.startswith(f"database: {one}")
    assert run("db", "--db", one, "path").stdout.strip() == one
    assert run("--db", str(tmp_path / "a.db"), "db", "path").stdout.strip() == f"sqlite:///{tmp_path}/a.db"
    monkeypatch.delenv("TUNING_REGISTRY_DB")
    assert run("db", "path").stdout.strip().endswith("/home/tuning-registry/registry.db")


@pytest.mark.parametrize(
    ("command", "split", "one_voice", "nothing"),
    [("disagreements", 1, 0, 1), ("ranks", 0, 0, 1)],
)
def test_exit_code_is_a_gate(cli: Cli, tmp_path: Path, command: str, split: int, one_voice: int, nothing: int) -> None:
    write_ranks(tmp_path / "split", [A, B])
    write_ranks(tmp_path / "one", [A, A], kernel="agreed")
    cli("ingest", tmp_path / "split", "--run", "split")
    cli("ingest", tmp_path / "one", "--run", "one")
    statuses = [
        cli(command, "--exit-code", *filters).exit_code
        for filters in (("--run", "split"), ("--run", "one"), ("--arch", "sm999"))
    ]
    assert statuses == [split, one_voice, nothing]
    assert cli(command, "--run", "split").exit_code == 0
    assert cli(command, "--arch", "sm999").exit_code == 0


def test_usage_errors_exit_2(sqlite_cli: Cli) -> None:
    for arguments in (
        ("export",),
        ("nonsense",),
        ("winners", "--format", "xml"),
        ("ingest",),
        ("ingest", "x", "--rank", "a"),
    ):
        assert sqlite_cli(*arguments).exit_code == 2, arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ingest", "missing.json"), "missing.json: cannot be read: No such file or directory"),
        (("ingest", "none*.json"), "none*.json: no file matches"),
        (("ingest", H200 / "rec.rank0.json", "--rank", "3"), "--rank 3, but the recording states 0"),
        (("winners",), "there is no registry here yet; registry ingest or registry db upgrade creates it"),
        (("runs", "withdraw", "x"), "there is no registry here yet"),
    ],
)
def test_errors_are_one_line_and_exit_1(sqlite_cli: Cli, arguments: tuple[object, ...], message: str) -> None:
    result = sqlite_cli(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    lines = [line for line in result.stderr.splitlines() if not line.startswith("database: ")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("ingest", H200, "--rank", "1"),
            "--rank applies to a single recording, but the paths name 16 files or caches",
        ),
        (("ingest", H200, "--package", "fla"), "--package 'fla': expected NAME=VERSION"),
        (("ingest", H200, "--package", "a=1", "--package", "a=2"), "--package names 'a' twice"),
        (("ingest", H200 / "rec.rank0.json", "--rank", "-1"), "--rank: expected an integer from 0"),
        (("ingest", H200, "--run", ""), "--run: an empty string"),
        (("export", "--arch", "sm90", "--min-agreement", "2"), "--min-agreement 2.0: expected a share from 0 to 1"),
        (("export", "--arch", "sm90", "--min-votes", "0"), "--min-votes 0: expected at least 1"),
        (("winners", "--db", "mysql://h/d"), "mysql is not supported"),
        (("winners", "--db", ""), "--db is empty"),
        (("ingest", H200, "--db", ":memory:"), "an in-memory database would be lost when this command ends"),
        (("winners", "--db", "host=h password=SECRET"), "a keyword=value string is not a database URL"),
        (("winners", "--db", "sqlite:///x.db?mode=ro"), "takes no options after ?"),
        (("winners", "--kernel", ""), "--kernel is empty"),
        (("winners", "--kernel", "a\0"), "--kernel: a NUL character"),
        (("winners", "--db", "sqlite://x.db"), "a relative file has three slashes"),
    ],
)
def test_values_that_mean_nothing_are_wrong_usage(sqlite_cli: Cli, arguments: tuple[object, ...], message: str) -> None:
    result = sqlite_cli(*arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_a_query_that_matches_nothing_says_what_there_is(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", *write_ranks(tmp_path, [A]), "--run", "july", "--triton", "3.6.0")
    for command in ("winners", "disagreements"):
        said = cli(command, "--arch", "sm9").stderr
        assert said.endswith("no votes match. Recorded archs: sm90; triton: 3.6.0; runs: july\n")
    assert "no votes on sm90 match the filters" in cli("export", "--arch", "sm90", "--triton", "3.7").stderr
    cli("runs", "withdraw", "july")
    assert cli("winners").stderr.endswith("archs: none; triton: none; runs: none (1 withdrawn)\n")


def test_the_same_content_under_two_names_is_pointed_out(cli: Cli, tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [A, B])
    cli("ingest", *paths, "--run", "july")
    said = cli("ingest", *paths, "--run", "typo").stderr
    assert "note: 2 recordings have the same votes or timings as run 'july'. Both runs count" in said


def test_every_bad_file_is_named(sqlite_cli: Cli, tmp_path: Path) -> None:
    for rank, path in enumerate(write_ranks(tmp_path, [A] * 9)):
        if rank:
            path.write_text("{")
    said = sqlite_cli("ingest", tmp_path).stderr
    assert "rec.rank1.json: not JSON at line 1 column 2" in said
    assert "(and 7 more: " in said
    assert "rec.rank6.json, ...)" in said


def test_debug_shows_the_traceback(sqlite_cli: Cli) -> None:
    assert "Traceback" not in sqlite_cli("ingest", "missing.json").stderr
    done = run_registry("--debug", "ingest", "missing.json")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("error: missing.json: cannot be read: No such file or directory\n")


def test_a_percent_sign_in_the_path(tmp_path: Path) -> None:
    folder = tmp_path / "100%d%(x)s"
    folder.mkdir()
    for url in (folder / "r.db", f"sqlite:///{folder}/s.db"):
        assert run_registry("--db", url, "db", "upgrade").returncode == 0
        assert run_registry("--db", url, "ingest", H200, "--run", "x").returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["r.db", "s.db"]


def test_links_and_globs_of_folders_lose_nothing(sqlite_cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path / "real", [A])
    (tmp_path / "top").mkdir()
    write_recording(tmp_path / "top" / "rec.rank1.json", {"sm90": {"k": {"M=1": A}}})
    (tmp_path / "top" / "sub").symlink_to("../real")
    (tmp_path / "real" / "round").symlink_to("../top")
    assert "ingested 2 recordings" in sqlite_cli("ingest", tmp_path / "top", "--run", "x").stderr
    assert "ingested 0 recordings" in sqlite_cli("ingest", tmp_path / "rea*", "--run", "x").stderr


def test_merge_and_report_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNING_REGISTRY_DB", f"sqlite:///{tmp_path}/never.db")
    done = run_registry("merge", H200, "-o", tmp_path / "sm90.json", "--triton", "3.6.0", "--source", "x")
    assert done.returncode == 0
    table = json.loads((tmp_path / "sm90.json").read_text())
    assert (table["triton"], table["source"], sum(map(len, table["kernels"].values()))) == ("3.6.0", "x", 45)
    report = run_registry("report", H200)
    assert report.returncode == 0
    assert report.stderr == "ranks disagree on 12 of 45 entries\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sm90.json"]


def test_merge_of_several_archs_and_of_nameless_files(sqlite_cli: Cli, tmp_path: Path) -> None:
    for name, arch in (("a", "sm90"), ("b", "sm90"), ("c", "sm103")):
        write_recording(tmp_path / f"{name}.json", {arch: {"k": {"M=1": A}}})
    result = sqlite_cli("merge", tmp_path, "-o", "-")
    assert (result.exit_code, "hold votes on sm103, sm90; choose an architecture with --arch" in result.stderr) == (
        1,
        True,
    )
    result = sqlite_cli("merge", tmp_path, "--arch", "sm90", "-o", "-")
    assert json.loads(result.stdout)["tuning_registry"]["weakest_agreement"] == [2, 2]


def test_merge_depends_on_the_files_and_not_on_where_they_lie(sqlite_cli: Cli, tmp_path: Path) -> None:
    for folder in ("here", "there"):
        for node in ("n1", "n2"):  # two nodes that happen to hold the same content both count
            write_recording(tmp_path / folder / node / "rec.rank0.json", {"sm90": {"k": {"M=1": A}}})
    tables = {sqlite_cli("merge", tmp_path / folder, "-o", "-").stdout for folder in ("here", "there")}
    assert len(tables) == 1
    ours = json.loads(tables.pop())["tuning_registry"]
    assert (ours["runs"], ours["weakest_agreement"]) == (["rec", "rec@2"], [2, 2])
    assert sqlite_cli("report", tmp_path / "here", "--exit-code").exit_code == 0


def test_what_an_ingest_says(sqlite_cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path / "in", [A, B], arch="MI300X")
    said = sqlite_cli("ingest", tmp_path / "in").stderr
    assert "run: rec@" in said
    assert "note: 'MI300X' is not a known architecture" in said
    assert sqlite_cli("ingest", tmp_path / "in", "--triton", "3.6.0").exit_code == 1
    assert "2 superseded" in sqlite_cli("ingest", tmp_path / "in", "--triton", "3.6.0", "--replace").stderr
    (tmp_path / "in" / "rec.rank1.json").write_text("{")
    result = sqlite_cli("ingest", tmp_path / "in", "--keep-going")
    assert result.exit_code == 1
    assert "skipped: " in result.stderr
    assert "1 already ingested, 1 skipped" in result.stderr


def test_newest_run_comes_first_whatever_the_time_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = tmp_path / "r.db"
    for run, zone in (("a", "America/Los_Angeles"), ("b", "Asia/Tokyo"), ("c", "America/Los_Angeles")):
        monkeypatch.setenv("TZ", zone)
        write_ranks(tmp_path / run, [A])
        assert run_registry("--db", db, "ingest", tmp_path / run, "--run", run).returncode == 0
    rows = json.loads(run_registry("--db", db, "runs", "--format", "json").stdout)
    assert [row["run"] for row in rows] == ["c", "b", "a"]
    assert all(row["ingested_at"].endswith("+00:00") for row in rows)


def test_check_finds_what_is_wrong(cli: Cli, store: Any, tmp_path: Path) -> None:
    import sqlalchemy as sa

    assert "there is no registry here yet" in cli("db", "check").stderr
    cli("ingest", *write_ranks(tmp_path, [A]), "--run", "x")
    assert "no problems found" in cli("db", "check").stderr
    with store.writing() as transaction:
        transaction.connection.execute(sa.text("INSERT INTO votes VALUES (1, 1, 999)"))
        transaction.connection.execute(sa.text("DROP VIEW counted_votes"))
    result = cli("db", "check")
    assert result.exit_code == 1
    assert "problem: view counted_votes is missing" in result.stderr
    assert "problem: 1 vote without a row in recordings" in result.stderr


def test_rank_lists_stay_short(sqlite_cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path, [A if rank % 2 else B for rank in range(100)])
    sqlite_cli("ingest", tmp_path, "--run", "demo")
    shown = sqlite_cli("disagreements").stdout
    assert "(50 ranks) of demo" in shown
    assert max(map(len, shown.splitlines())) < 140
    assert rank_ranges(range(1, 100, 2)) in sqlite_cli("disagreements", "--format", "csv").stdout


UNDECODABLE = "\udc80"  # what Python makes of a byte on the command line that is not UTF-8


@pytest.mark.parametrize("option", ["--kernel", "--arch", "--run", "--source", "--triton", "--package"])
def test_a_filter_that_no_database_can_hold_is_wrong_usage_and_is_named(sqlite_cli: Cli, option: str) -> None:
    refused = sqlite_cli("winners", option, UNDECODABLE + "=1" * (option == "--package"))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"error: {option}: a lone surrogate" in refused.stderr


def test_exports_of_an_architecture_that_cannot_be_asked_for(sqlite_cli: Cli) -> None:
    sqlite_cli("ingest", H200, "--run", "july", "--triton", "3.6.0")
    for arch, why in ((UNDECODABLE, "--arch: a lone surrogate"), ("", "--arch is empty")):
        refused = sqlite_cli("exports", "--arch", arch)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert why in refused.stderr


def test_an_unset_variable_names_no_run_and_no_folder(
    sqlite_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ranks(tmp_path, [A, B])
    monkeypatch.chdir(tmp_path)
    for command in (["ingest", "", "--run", "x"], ["merge", "", "-o", "-"], ["report", ""]):
        refused = sqlite_cli(*command)
        assert (refused.exit_code, "a PATH is empty" in refused.stderr) == (2, True)
    assert sqlite_cli("ingest", ".", "--run", "x").exit_code == 0
    for command in (["disagreements"], ["winners"], ["ranks"], ["misses"], ["export", "--arch", "sm90"]):
        refused = sqlite_cli(*command, "--run", "")
        assert (refused.exit_code, "--run is empty" in refused.stderr) == (2, True)
    assert sqlite_cli("winners", "--source", "").exit_code == 0  # of recordings that state none


def test_a_file_whose_name_gives_no_run_is_named(sqlite_cli: Cli, tmp_path: Path) -> None:
    file = write_recording(tmp_path / f"rec{UNDECODABLE}.rank0.json", {})
    refused = sqlite_cli("ingest", file)
    assert refused.exit_code == 1
    assert r"rec\udc80.rank0.json: the run's name: a lone surrogate" in refused.stderr


def test_max_regression_against_a_name_that_cannot_be_looked_at(sqlite_cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path, [A, A])
    sqlite_cli("ingest", tmp_path, "--run", "x")
    refused = sqlite_cli("export", "--arch", "sm90", "--max-regression", 3, "-o", tmp_path / ("x" * 300))
    assert refused.exit_code == 1
    assert "xxx: cannot be written: File name too long" in refused.stderr


def test_a_mistyped_kernel_is_told_its_neighbours(sqlite_cli: Cli) -> None:
    sqlite_cli("ingest", H200, "--run", "demo")
    for words in (("winners",), ("disagreements",), ("ranks",), ("misses",)):
        result = sqlite_cli(*words, "--kernel", "l2norm_fwd_kernal")
        assert "Recorded kernels with a similar name: fla.modules.norm.l2norm.l2norm_fwd_kernel" in result.stderr
    assert "similar" not in sqlite_cli("winners", "--kernel", "nothing_of_the_kind").stderr
    assert "similar" not in sqlite_cli("winners", "--kernel", "l2norm_fwd_kernel", "--triton", "9").stderr


def test_a_page_needs_no_database_and_can_go_to_stdout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_registry("report", H200, "--html", "-")
    assert done.returncode == 0
    assert done.stdout.startswith("<!doctype html>")
    assert done.stderr.startswith(
        "wrote stdout: 45 entries of 8 ranks: 12 disagreements, 3 conflicts beyond the noise; "
    )
    done = run_registry("report", H200, "--html", "page.html", "--kernel", "*norm*", "--exit-code")
    assert done.returncode == 1
    assert "16 entries" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    done = run_registry("report", H200, "--html", "page.html", "--kernel", "nobody")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "the files contain no votes that match")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            (),
            "expected recordings or --html FILE. To list the disagreements in the database, use registry disagreements",
        ),
        (("x", "--against", "y"), "--against works only with --html FILE"),
        (("x", "--key", "y"), "--key works only with --html FILE"),
    ],
)
def test_what_a_report_cannot_do_is_a_usage_error(sqlite_cli: Cli, words: tuple[str, ...], error: str) -> None:
    done = sqlite_cli("report", *words)
    assert (done.exit_code, done.stderr) == (2, f"error: {error}\n")


def test_a_page_that_cannot_be_written_or_compared_says_so(sqlite_cli: Cli, tmp_path: Path) -> None:
    sqlite_cli("ingest", H200, "--run", "july")
    (tmp_path / "file").touch()
    done = sqlite_cli("report", "--html", tmp_path / "file" / "page.html")
    assert done.exit_code == 1
    assert "page.html: cannot be written" in done.stderr
    done = sqlite_cli("report", "--html", tmp_path / "page.html", "--against", "june")
    assert done.exit_code == 1
    assert "june: no table file or run has this name" in done.stderr
    assert not (tmp_path / "page.html").exists()


def test_a_report_of_no_votes_exits_1(tmp_path: Path) -> None:
    write_recording(tmp_path / "rec.rank0.json", {})
    done = run_registry("report", tmp_path)
    assert (done.returncode, done.stderr) == (1, "the files contain no votes\n")


def test_ingest_warns_of_a_kernel_with_many_keys(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "MANY_KEYS", 20)
    done = cli("ingest", many_keys(tmp_path / "rec.rank0.json", 20), "--run", "a")
    assert "warning" not in done.stderr
    done = cli("ingest", many_keys(tmp_path / "rec.rank1.json", 21), "--run", "a")
    assert (done.exit_code, "warning: k has 21 keys on sm90. If a value" in done.stderr) == (0, True)
    assert "warning" not in cli("ingest", tmp_path / "rec.rank1.json", "--run", "a").stderr  # nothing new


def test_there_may_be_nothing_to_save(sqlite_cli: Cli, tmp_path: Path) -> None:
    assert sqlite_cli("db", "upgrade").exit_code == 0
    done = sqlite_cli("hand-ins", "--save", tmp_path / "refused")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (0, "no hand-ins are refused, so nothing was saved")
    assert not (tmp_path / "refused").exists()
