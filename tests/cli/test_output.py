"""Where an export goes, what pipes and consoles make of the output, and files from other editors."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.conftest import H200, Cli, run_registry, version_1, write_recording
from tests.helpers import (
    A,
    contents,
    error_of,
    many_keys,
    on_sqlite,
    run_as_nobody,
    run_prepared,
)
from tuning_registry import load
from tuning_registry.cli.app import app


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., Result]:
    """Export a small registry: `exported(path)`."""
    database = str(tmp_path / "export.db")
    assert CliRunner().invoke(app, ["--db", database, "ingest", str(H200)]).exit_code == 0
    return lambda *output: CliRunner().invoke(app, ["--db", database, "export", "--arch", "sm90", *map(str, output)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tables"
    made.mkdir()
    return made


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o664), (0o022, 0o644), (0o077, 0o600)])
def test_a_new_table_has_the_mode_of_the_umask(
    exported: Callable[..., Result], folder: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        assert exported("-o", folder / "sm90.json").exit_code == 0
    finally:
        os.umask(before)
    assert mode_of(folder / "sm90.json") == mode


@pytest.mark.parametrize("mode", [0o664, 0o640, 0o444])
def test_an_existing_table_keeps_its_mode(exported: Callable[..., Result], folder: Path, mode: int) -> None:
    table = folder / "sm90.json"
    table.write_text("old")
    table.chmod(mode)
    assert exported("-o", table).exit_code == 0
    assert mode_of(table) == mode
    assert json.loads(table.read_text())["arch"] == "sm90"


@pytest.mark.parametrize("there", [True, False], ids=["file", "nothing"])
def test_a_link_stays_a_link_and_its_target_is_written(
    exported: Callable[..., Result], folder: Path, tmp_path: Path, there: bool
) -> None:
    target = tmp_path / "common" / "sm90.json"
    target.parent.mkdir()
    if there:
        target.write_text("old")
        target.chmod(0o664)
    link = folder / "sm90.json"
    link.symlink_to("../common/sm90.json")
    assert exported("-o", link).exit_code == 0
    assert str(link.readlink()) == "../common/sm90.json"
    assert json.loads(target.read_text())["arch"] == "sm90"
    assert not there or mode_of(target) == 0o664
    assert list(contents(folder)) == list(contents(target.parent)) == ["sm90.json"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.mkdir(), "is a directory; expected a file name"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
    ids=["folder", "loop"],
)
def test_what_cannot_be_written_is_left_alone(
    exported: Callable[..., Result], folder: Path, make: Callable[[Path], None], reason: str
) -> None:
    make(folder / "sm90.json")
    assert reason in error_of(exported("-o", folder / "sm90.json"))
    assert [file.name for file in folder.iterdir()] == ["sm90.json"]


def test_an_export_into_a_read_only_folder(shared_database: Path) -> None:
    table = shared_database.with_name("sm90.json")
    shared_database.parent.chmod(0o755)
    table.write_text("old")
    table.chmod(0o666)
    shared_database.parent.chmod(0o555)
    said = error_of(run_as_nobody("--db", shared_database, "export", "--arch", "sm90", "-o", table))
    assert said == f"error: {table}: cannot be written: Permission denied"
    assert list(contents(shared_database.parent)) == ["registry.db", "sm90.json"]
    assert table.read_text() == "old"


def run_export(tmp_path: Path, *words: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tuning_registry", "--db", str(tmp_path / "export.db"), *map(str, words)]
    return subprocess.run(command, check=False, timeout=60, **options)


@pytest.mark.parametrize("output", [(), ("-o", "-"), ("-o", "/dev/stdout")], ids=["", "-", "/dev/stdout"])
def test_stdout_gets_the_bytes_of_the_file(
    exported: Callable[..., Result], folder: Path, tmp_path: Path, output: tuple[str, ...]
) -> None:
    exported("-o", folder / "sm90.json")
    result = run_export(tmp_path, "export", "--arch", "sm90", *output, capture_output=True)
    assert (result.returncode, result.stdout) == (0, (folder / "sm90.json").read_bytes())


def test_dev_stdout_does_not_replace_the_file_behind_it(
    exported: Callable[..., Result], folder: Path, tmp_path: Path
) -> None:
    log = folder / "log"
    log.write_bytes(b"before\n")
    with log.open("ab") as stdout:
        run_export(tmp_path, "export", "--arch", "sm90", "-o", "/dev/stdout", stdout=stdout, stderr=subprocess.PIPE)
    assert log.read_bytes() == b"before\n" + exported().stdout_bytes


def test_a_pipe_by_its_descriptor_is_written_to(exported: Callable[..., Result], tmp_path: Path) -> None:
    reading, writing = os.pipe()  # what a shell gives for -o >(gzip > f)
    words = ("export", "--arch", "sm90", "-o", f"/dev/fd/{writing}")
    result = run_export(tmp_path, *words, pass_fds=(writing,), stderr=subprocess.PIPE)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert (result.returncode, pipe.read()) == (0, exported().stdout_bytes)


def test_a_closed_stdout_is_an_error(exported: Callable[..., Result], tmp_path: Path) -> None:
    result = run_prepared("import sys; sys.stdout = None", "--db", tmp_path / "export.db", "export", "--arch", "sm90")
    assert error_of(result) == "error: stdout is closed"


# Pipes and encodings


@pytest.mark.parametrize("unbuffered", ["", "1"])
@on_sqlite
def test_a_reader_that_goes_away(database: str, cli: Cli, tmp_path: Path, unbuffered: str) -> None:
    assert cli("ingest", many_keys(tmp_path / "rec.rank0.json", 3000)).exit_code == 0
    command = [sys.executable, "-m", "tuning_registry", "--db", database, "winners"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == f"database: {database}\n"
    assert process.returncode == 128 + signal.SIGPIPE


ACCENTED = {"sm90": {"k": {"M=é|x": A, "M=λ|x": A}}}


@pytest.mark.parametrize(
    ("encoding", "style", "shown"),
    [
        ("latin-1", "table", ["M=é|x", "M=\\u03bb|x"]),
        ("latin-1", "csv", ["M=é|x", "M=\\u03bb|x"]),
        ("latin-1", "json", ["M=\\u00e9|x", "M=\\u03bb|x"]),
        ("ascii", "json", ["M=\\u00e9|x", "M=\\u03bb|x"]),
        ("ascii", "table", ["M=\\xe9|x", "M=\\u03bb|x"]),
        ("ascii", "csv", ["M=\\xe9|x", "M=\\u03bb|x"]),
    ],
)
@on_sqlite
def test_a_console_that_lacks_a_character(
    database: str, cli: Cli, tmp_path: Path, encoding: str, style: str, shown: list[str]
) -> None:
    assert cli("ingest", write_recording(tmp_path / "rec.rank0.json", ACCENTED)).exit_code == 0
    command = [sys.executable, "-m", "tuning_registry", "--db", database, "winners", "--format", style]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    result = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=60)
    assert (result.returncode, b"Traceback" in result.stderr) == (0, False)
    assert [text for text in shown if text not in result.stdout.decode("latin-1")] == []


PLAIN_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@on_sqlite
def test_the_locale_changes_no_byte(database: str, cli: Cli, tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "é" / "rec.rank0.json", json.dumps(ACCENTED, ensure_ascii=False).encode())
    plain = {**os.environ, **PLAIN_LOCALE}
    assert cli("ingest", recording, "--run", "demo").exit_code == 0
    again = run_registry("--db", database, "ingest", recording, "--run", "demo", env=plain)
    assert "1 already ingested" in again.stderr
    table = tmp_path / "sm90.json"
    assert run_registry("--db", database, "export", "--arch", "sm90", "-o", table, env=plain).returncode == 0
    assert table.read_bytes() == cli("export", "--arch", "sm90").stdout_bytes


def test_a_name_outside_the_locale_is_shown_escaped(tmp_path: Path) -> None:
    plain = {**os.environ, **PLAIN_LOCALE}
    result = run_registry("--db", tmp_path / "new.db", "ingest", tmp_path / "é.json", env=plain)
    assert "No such file" in error_of(result)


@pytest.mark.parametrize(
    "change",
    [lambda data: b"\xef\xbb\xbf" + data, lambda data: data.replace(b"\n", b"\r\n")],
    ids=["byte order mark", "CRLF"],
)
@pytest.mark.parametrize("header", [True, False], ids=["version 1", "seed"])
@on_sqlite
def test_files_from_other_editors(cli: Cli, tmp_path: Path, change: Callable[[bytes], bytes], header: bool) -> None:
    document = version_1({"sm90": {"k": {"M=1": A}}}) if header else {"sm90": {"k": {"M=1": A}}}
    data = json.dumps(document, indent=1).encode()
    run = [] if header else ["--run", "job-1"]
    assert cli("ingest", write_recording(tmp_path / "a.rank0.json", data), *run).exit_code == 0
    again = cli("ingest", write_recording(tmp_path / "b.rank0.json", change(data)), *run)
    assert "1 already ingested" in again.stderr
    table = tmp_path / "sm90.json"
    table.write_bytes(change(cli("export", "--arch", "sm90").stdout_bytes))
    assert load("sm90", tmp_path).kernels == {"k": {"M=1": A}}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
@on_sqlite
def test_other_encodings_are_refused(cli: Cli, tmp_path: Path, encoding: str) -> None:
    data = json.dumps({"sm90": {"k": {"M=É": A}}}, ensure_ascii=False).encode(encoding)
    said = error_of(cli("ingest", write_recording(tmp_path / "rec.rank0.json", data)))
    assert "expected UTF-8" in said or "is not UTF-8" in said
