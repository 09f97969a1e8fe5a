"""Formats that other packages add, and those that are broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.conftest import ROOT, write_recording
from tests.formats.tools.helpers import TOOLS
from tuning_registry.errors import PluginError, RecordingError, UsageError
from tuning_registry.formats.plugin import Format, ToolFile
from tuning_registry.formats.plugins import GROUP, Plugins
from tuning_registry.model.records import Recording

PLUGIN = '''
from tuning_registry.formats.plugin import Format, Written, choices_of
from tuning_registry.model.kinds import launch_text
from tuning_registry.model.origins import Origin


class Lines(Format):
    """KERNEL KEY NAME=VALUE, one choice a line."""

    name = "lines"
    title = "one choice a line"
    suffixes = (".lines",)

    def recognizes(self, file):
        return file.data.startswith(b"#lines")

    def read(self, files):
        for file in files:
            choices = {}
            for line in file.data.decode().splitlines()[1:]:
                kernel, key, pair = line.split()
                name, _, value = pair.partition("=")
                choices.setdefault(kernel, {})[key] = launch_text({name: int(value)})
            yield choices_of(file, Origin(tool=self.name, file=file.path.name), choices, device="NVIDIA_H200", arch="sm90")

    def write(self, chosen):
        lines = [f"{one.kernel} {one.key} {one.config}" for one in chosen.entries]
        return Written(files={"all.lines": "\\n".join(lines).encode()}, left_out={"no reason": 1})
'''
BROKEN = "raise RuntimeError('no such GPU')"
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "tuned-lines"
version = "2.0"
[project.entry-points."tuning_registry.formats"]
lines = "tuned_lines:Lines"
sick = "tuned_sick:Sick"
[tool.hatch.build.targets.wheel]
include = ["*.py"]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip has installed a package with two formats, one of them broken."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    for name, text in {"tuned_lines.py": PLUGIN, "tuned_sick.py": BROKEN, "pyproject.toml": PROJECT}.items():
        (source / name).write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, timeout=120)
    return target


def registry(installed: Path, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    command = [sys.executable, "-m", "tuning_registry", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


def test_a_package_adds_a_format(installed: Path, tmp_path: Path) -> None:
    database = tmp_path / "registry.db"
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "x.lines").write_text("#lines\nk M=16 BLOCK=64\nk M=32 BLOCK=128\n")
    (tmp_path / "files" / "notes.txt").write_text("not a file of any format")
    listed = registry(installed, "formats", "--format", "json")
    assert {
        "name": "lines",
        "reads": True,
        "writes": True,
        "package": "tuned-lines 2.0",
        "title": "one choice a line",
    } in (json.loads(listed.stdout))
    assert "format sick of tuned-lines 2.0: cannot be loaded: RuntimeError: no such GPU" in listed.stderr
    done = registry(installed, "--db", database, "ingest", tmp_path / "files")
    assert done.returncode == 0, done.stderr
    assert "ingested 1 file with 2 curated choices" in done.stderr
    assert "warning: format sick of tuned-lines 2.0" in done.stderr  # it was asked, so it is named
    shown = registry(installed, "--db", database, "winners", "--curated", "--format", "json")
    assert [(one["key"], one["config"], one["device"]) for one in json.loads(shown.stdout)] == [
        ("M=16", {"launch": {"BLOCK": 64}}, "NVIDIA_H200"),
        ("M=32", {"launch": {"BLOCK": 128}}, "NVIDIA_H200"),
    ]
    written = registry(installed, "--db", database, "export", "--curated", "--to", "lines", "-o", tmp_path / "out")
    assert written.returncode == 0, written.stderr
    assert "note: 1 entry left out: no reason" in written.stderr
    assert (tmp_path / "out" / "all.lines").read_text().startswith('k M=16 {"launch": {"BLOCK": 64}}')


def test_no_format_is_loaded_for_recordings(installed: Path, tmp_path: Path) -> None:
    write_recording(
        tmp_path / "rec.rank0.json", {"sm90": {"k": {"M=1": {"kwargs": {}, "num_warps": 4, "num_stages": 3}}}}
    )
    done = registry(installed, "--db", tmp_path / "registry.db", "ingest", tmp_path / "rec.rank0.json", "--run", "r")
    assert done.returncode == 0, done.stderr
    assert "sick" not in done.stderr


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


class Any1(Format):
    name = "any1"
    title = "anything"

    def recognizes(self, _: ToolFile) -> bool:
        return True

    def read(self, _: Sequence[ToolFile]) -> Iterable[Recording]:
        raise KeyError("x")


class Any2(Any1):
    name = "any2"


class Failing(Any1):
    name = "failing"

    def recognizes(self, _: ToolFile) -> bool:
        raise ZeroDivisionError("0")


HERE = "tests.formats.test_plugins"


def test_a_file_that_two_formats_recognize_is_refused(tmp_path: Path) -> None:
    plugins = Plugins([point("any1", f"{HERE}:Any1"), point("any2", f"{HERE}:Any2")])
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(RecordingError, match=r"x\.json: the formats any1 and any2 both recognize this file"):
        plugins.recognize(ToolFile(tmp_path / "x.json"))


def test_a_format_that_fails_is_named_and_the_others_are_asked(tmp_path: Path) -> None:
    plugins = Plugins([point("failing", f"{HERE}:Failing"), point("any1", f"{HERE}:Any1")])
    file = ToolFile(tmp_path / "x.json", b"{}")
    found = plugins.recognize(file)
    assert found is not None
    assert found.name == "any1"
    assert "ZeroDivisionError" in plugins.broken["failing"]
    with pytest.raises(PluginError, match=r"x\.json: format any1 failed: KeyError"):
        plugins.read(found, [file])


@pytest.mark.parametrize(
    "value", ["no_such_module:X", f"{HERE}:no_such_name", f"{HERE}:Any2", "json:JSONDecoder", "sys:exit", f"{HERE}"]
)
def test_what_cannot_be_loaded_is_broken_and_no_more(value: str) -> None:
    plugins = Plugins([point("broken", value), point("any1", f"{HERE}:Any1")])
    assert [one.name for one in plugins.readers()] == ["any1"]
    assert list(plugins.broken) == ["broken"]
    with pytest.raises(PluginError, match="format broken of an unknown package"):
        plugins.named("broken")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="there is no format 'x'; registry formats lists them: any1"):
        Plugins([point("any1", f"{HERE}:Any1")]).named("x")


def test_the_formats_of_this_package_are_declared_and_work() -> None:
    plugins = Plugins()
    assert {"fla", "sglang", "vllm"} <= {plugin.name for plugin in plugins}
    assert len(plugins.describe()) == len(list(plugins))
    assert not plugins.broken


@pytest.mark.parametrize("file", sorted(TOOLS.rglob("*.json")), ids=lambda file: str(file)[-50:])
def test_every_file_is_of_one_format(file: Path) -> None:
    found = Plugins().recognize(ToolFile(file))
    assert found is not None
    assert found.name == file.relative_to(TOOLS).parts[0]
