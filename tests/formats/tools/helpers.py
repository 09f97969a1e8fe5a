"""What the tests of tool formats share."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ROOT
from tuning_registry.formats.plugin import Format, ToolFile
from tuning_registry.formats.plugins import Plugins
from tuning_registry.model.records import Recording

TOOLS = ROOT / "tests" / "data" / "tools"


def read(one: Format, *paths: Path) -> list[Recording]:
    """The recordings in files, after the format has recognized and grouped them."""
    files = [ToolFile(path) for path in paths]
    assert all(one.recognizes(file) for file in files)
    return [recording for unit in one.group(files) for recording in Plugins([]).read(one, unit)]


def choices(recording: Recording) -> dict[str, str]:
    """Config by key, of a recording with one architecture and kernel."""
    (kernels,) = recording.votes.values()
    (entries,) = kernels.values()
    return dict(entries)
