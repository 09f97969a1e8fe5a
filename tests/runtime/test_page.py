"""The page that a pinned job writes at its end."""

from __future__ import annotations

import html.parser
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, KEY, NAME, Tensor, autotuner, launch, stored, three, triton, write_table
from tests.runtime.test_process import python
from tuning_registry.formats.table import read_table
from tuning_registry.html.text import short_key
from tuning_registry.runtime import choice_digest, install, uninstall
from tuning_registry.runtime.guard import guarded

EVIL = """"><img src=x onerror=alert(1)><script>alert(2)</script></style>'&amp;\x1b[31m\u202e"""


class Reader(html.parser.HTMLParser):
    """The names of the tags, and the text of each section by its anchor."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sections: dict[str, str] = {}
        self._section = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "section":
            self._section = str(dict(attrs)["id"])

    def handle_data(self, data: str) -> None:
        self.sections[self._section] = " ".join([*self.sections.get(self._section, "").split(), *data.split()])


def read(file: Path) -> dict[str, str]:
    return Reader(file.read_text()).sections


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "tables", {NAME: {KEY: stored(three()[0])}}, triton="3.6.0")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "out" / "job.html"


def job(table: Path, file: Path | None, kernel: Any = None, **fields: Any) -> None:
    """A pinned job with two keys of one kernel, of which the table has the first."""
    install(**{"arch": ARCH, "mode": "pinned", "table_path": table, "report_html": file, **fields})
    kernel = kernel or autotuner()
    for size in (16, 32, 16, 32):
        launch(kernel, Tensor(), Tensor(), size)
    uninstall()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [line for line in found if not re.search(r"miss \(|looked up in|was recorded with", line)]


@pytest.mark.usefixtures("alone")
def test_the_page_states_table_hits_misses_and_job(
    table: Path, file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "8")
    job(table, file, run="nightly")
    sections = read(file)
    digest = read_table(table).selection_digest
    summary = sections["summary"]
    assert "The table decided 1 of 2 keys" in summary
    assert "1 from the table 1 from the nearest recorded keys 0 other misses 0 kernels not covered 0 faults" in summary
    assert f"{table}: 1 entry, Triton 3.6.0" in summary
    assert digest in summary
    assert "Rank 0 of 8" in summary
    recorded = short_key(KEY)
    missed = recorded.replace("16", "32")
    assert f"kernel pkg.ops {missed} {ARCH} no key nearest {recorded} BLOCK_M=128" in sections["misses"]
    assert f"kernel pkg.ops {recorded} {ARCH} table BLOCK_M=128 num_warps=8" in sections["pinned"]
    assert missed not in sections["pinned"]
    assert "No launch is known to have escaped" in sections["not-covered"]
    assert "Run nightly Host of this rank" in summary
    assert f"Triton {triton.__version__}" in summary
    assert "AutotunePolicy(mode='pinned'" in sections["job"]
    assert f"wrote the report of this job to {file}" in caplog.text
    assert [one.name for one in file.parent.iterdir()] == ["job.html"]


@pytest.mark.usefixtures("alone")
def test_gaps_and_faults_are_on_the_page(table: Path, file: Path) -> None:
    early = autotuner(name="early")
    launch(early)  # before the policy is there
    outside = autotuner(module="other.ops")
    install(mode="pinned", arch=ARCH, table_path=table, report_html=file, modules=("pkg",), on_miss="min_cost")
    for kernel in (outside, autotuner()):
        launch(kernel)
        launch(kernel, Tensor(), Tensor(), 32)
    guarded("testing", int, "no number")
    digest = choice_digest()
    install(mode="auto")  # the page is that of the policy before
    sections = read(file)
    assert "early pkg.ops has cached configs that were chosen before install" in sections["not-covered"]
    assert "kernel other.ops out of scope" in sections["not-covered"]
    assert "2 kernels not covered 1 fault" in sections["summary"]
    assert "no key min_cost" in sections["misses"]
    assert "Faults while testing 1" in sections["job"]
    assert digest in sections["job"]


def test_hostile_names_stay_text(tmp_path: Path, file: Path) -> None:
    folder = write_table(tmp_path / "tables", {f"pkg.{EVIL}": {KEY: stored(three()[0])}}, triton=EVIL)
    job(folder, file, autotuner(name=EVIL, module="pkg"), run=EVIL.replace("\x1b", ""), source=EVIL)
    page = file.read_text()
    reader = Reader(page)
    assert "img" not in reader.tags
    assert reader.tags.count("script") == reader.tags.count("style") == 1
    assert "<img src=x onerror=alert(1)>" in reader.sections["misses"]
    assert not {"\x1b", "\u202e"} & set(page)


def test_only_rank_0_writes_a_page(table: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    job(table, file)
    assert not file.parent.exists()
    monkeypatch.setenv("RANK", "0")
    job(table, file)
    assert file.is_file()


def test_a_page_that_cannot_be_written_is_one_warning(
    table: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "fifo")  # opening it would wait for a reader
    (tmp_path / "plain").write_text("kept")
    for path, why in (("fifo", "is not a regular file"), ("tables", "is not a regular file"), ("plain/job.html", "")):
        caplog.clear()
        job(table, tmp_path / path)
        (line,) = warnings(caplog)
        assert f"the report of this job was not written: {tmp_path / path}: {why or 'cannot be written: '}" in line
    assert (tmp_path / "plain").read_text() == "kept"
    caplog.clear()
    job(table, None)
    assert warnings(caplog) == []


@pytest.mark.parametrize("mode", ["auto", "record"])
def test_other_modes_say_that_they_write_no_page(
    mode: str, table: Path, tmp_path: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job(table, file, mode=mode, table_path=(), record_path=tmp_path / "rec" if mode == "record" else None)
    assert f"report_html has no effect in mode {mode}" in caplog.text
    assert not file.exists()


def test_a_fault_in_the_page_stays_out_of_the_job(
    table: Path, file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuning_registry.runtime.page.render_page", lambda *_: 1 // 0)
    job(table, file)
    (line,) = warnings(caplog)
    assert "writing the report of the job failed; training continues" in line
    assert not file.exists()


JOB = """
import os
import tests.runtime.fakes as fakes
kernel = fakes.autotuner()
fakes.launch(kernel)
os.chdir("/")
if os.fork() == 0:
    raise SystemExit
os.wait()
"""


def test_the_command_writes_the_page_at_exit_where_it_was_started(table: Path, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    options = ("--mode", "pinned", "--table-path", str(table), "--arch", ARCH, "--report-html", "job.html")
    done = python("-m", "tuning_registry.runtime", *options, "job.py", cwd=tmp_path)
    assert done.stderr.count("wrote the report of this job to") == 1
    page = (tmp_path / "job.html").read_text()
    assert "The table decided all 1 key" in page
    assert re.search(r'http-equiv="Content-Security-Policy"', page)
