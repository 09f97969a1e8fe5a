"""Whole files: which of a folder are read, and how one is replaced."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.helpers import contents
from tuning_registry.errors import FileError
from tuning_registry.formats.files import expand_glob, find_below, write_atomically, write_together


def test_a_missing_folder_is_created(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "x.json"
    write_atomically(path, b"{}\n")
    assert path.read_bytes() == b"{}\n"
    assert [file.name for file in path.parent.iterdir()] == ["x.json"]
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "other" / "target.json")
    write_atomically(link, b"1\n")
    assert link.is_symlink()
    assert (tmp_path / "other" / "target.json").read_bytes() == b"1\n"


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="file/x.json: cannot be written: Not a directory"):
        write_atomically(tmp_path / "file" / "x.json", b"{}\n")


def test_several_files_are_replaced_together_or_not_at_all(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")

    def fail(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(FileError, match="/b: cannot be written: No space left on device"):
        write_together({tmp_path / "a": b"new", tmp_path / "b": fail})
    assert contents(tmp_path) == {"a": b"old", "b": b"old"}
    write_together({tmp_path / "a": b"new", tmp_path / "b": lambda file: file.write(b"newer")})
    assert contents(tmp_path) == {"a": b"new", "b": b"newer"}


def test_temporary_folders_of_tritons_cache_are_never_entered(tmp_path: Path) -> None:
    for folder in ("a", "tmp.pid_4711_ab", "a/tmp.pid_1_x/deep", ".hidden"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "k.autotune.json").write_text("{")
    kept = [tmp_path / "a" / "k.autotune.json"]
    assert find_below(tmp_path, ".json") == kept
    assert expand_glob(tmp_path / "**" / "*.json") == kept
    with pytest.raises(FileError, match="no file matches"):
        expand_glob(tmp_path / "tmp.pid_*" / "*.json")
    named = tmp_path / "tmp.pid_4711_ab" / "k.autotune.json"
    assert expand_glob(named) == [named]  # a file that is named is read, and refused
