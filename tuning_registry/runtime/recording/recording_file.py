"""The file of one recorder: always complete, and never a file of another process or attempt."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from tuning_registry.errors import FileError
from tuning_registry.formats.files import read_head, sync_folder
from tuning_registry.model.canonical import dump_json, text_digest
from tuning_registry.runtime.job.place import file_name_part, host_name

_LONGEST_NAME_BYTES: Final = 255  # NAME_MAX of every common file system
_SHORT_PREFIX_BYTES: Final = 40
_SYNC_BYTES: Final = 8 << 20
_HEAD_BYTES: Final = 1 << 14  # holds the header, whatever packages it names first


class RecordingFile:
    """`<prefix>.<run>.<host>.<process>.rank<N>.json`; if that exists, the start time follows the process.

    Process ids repeat: in a restarted pod every attempt has the same run, host and process.

    Args:
        prefix: Folder and beginning of the name, absolute.
        beat: Called to show progress.
        mark: Follows the process id in the name.
    """

    def __init__(self, prefix: Path, beat: Callable[[], None], mark: str = "") -> None:
        self._prefix = prefix
        self._beat = beat
        self._mark = mark
        self._named_for: tuple[str, int] | None = None
        self.path: Path | None = None

    def write(self, run: str, rank: int, chunks: Iterable[bytes]) -> Path:
        """Replace the file by these bytes; if run or rank have changed, it gets a new name.

        Raises:
            OSError: It cannot be written; the file of the last write stays.
        """
        folder = self._prefix.parent
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".recording.{os.urandom(8).hex()}.tmp"
        try:
            self._write(temporary, chunks)
            if self.path is not None and self._named_for == (run, rank):
                os.replace(temporary, self.path)
                path = self.path
            else:
                path = self._place(temporary, run, rank)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        sync_folder(folder)
        before, self.path, self._named_for = self.path, path, (run, rank)
        if before is not None and before != path:
            with contextlib.suppress(OSError):
                before.unlink()
        return path

    def delete(self) -> None:
        """Delete the file; the next write starts a new one."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path = self._named_for = None

    def has_rival(self, run: str, rank: int) -> bool:
        """Whether another process has a file for this run and rank under the same prefix."""
        middle, end = f".{file_name_part(run) or 'run'}.", f".rank{rank}.json"
        starts = (self._prefix.name + middle, os.fsdecode(self._short_prefix()) + middle)
        own = None if self.path is None else self.path.name
        with os.scandir(self._prefix.parent) as entries:
            return any(
                e.name.startswith(starts) and e.name.endswith(end) and e.name != own and _may_be_of(Path(e.path), run)
                for e in entries
            )

    def _write(self, path: Path, chunks: Iterable[bytes]) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            unsynced = 0
            for chunk in chunks:
                file.write(chunk)
                self._beat()
                unsynced += len(chunk)
                if unsynced > _SYNC_BYTES:  # in parts, so that progress shows on a slow disk
                    file.flush()
                    os.fsync(file.fileno())
                    self._beat()
                    unsynced = 0
            file.flush()
            os.fsync(file.fileno())
            self._beat()

    def _place(self, temporary: Path, run: str, rank: int) -> Path:
        """Give the written file the first free name; two processes that try at once get two names."""
        for name in self._names(run, rank):
            path = self._prefix.parent / name
            try:
                os.link(temporary, path)
            except FileExistsError:
                continue
            except OSError:  # a file system without links: an empty file reserves the name
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
                except FileExistsError:
                    continue
                os.replace(temporary, path)
            return path
        raise AssertionError  # there is no last name

    def _names(self, run: str, rank: int) -> Iterator[str]:
        start = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        process = f"{os.getpid()}{self._mark}"
        yield self._name(run, process, rank)
        yield self._name(run, f"{process}-{start}", rank)
        while True:
            yield self._name(run, f"{process}-{start}-{os.urandom(3).hex()}", rank)

    def _name(self, run: str, process: str, rank: int) -> str:
        rest = f".{file_name_part(run) or 'run'}.{host_name()[:63]}.{process}.rank{rank}.json"
        prefix = os.fsencode(self._prefix.name)
        if len(prefix) + len(rest) > _LONGEST_NAME_BYTES:
            prefix = self._short_prefix()
        return os.fsdecode(prefix) + rest

    def _short_prefix(self) -> bytes:
        """A replacement for a prefix that is too long for a file name."""
        prefix = os.fsencode(self._prefix.name)
        digest = text_digest(prefix.decode("utf-8", "backslashreplace"))[:8]
        return prefix[:_SHORT_PREFIX_BYTES].decode("utf-8", "ignore").encode() + b"-" + digest.encode()


def _may_be_of(file: Path, run: str) -> bool:
    """Whether a recording states this run, which its file name may abbreviate. True if it cannot be read."""
    try:
        head = read_head(file, _HEAD_BYTES)
    except FileError:
        return True
    return b'"run": ' not in head or b'"run": ' + dump_json(run).encode() in head
