"""The fast road into a recording: same results as `recordings`, for well-formed files of the common form.

Ranks of a job write the same few config texts over and over. msgspec splits a file into its entries
without building the configs; each distinct piece of config text is read once, strictly. Whatever is
out of the ordinary goes the strict road, which also words the errors.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tuning_registry.canonical import check_text
from tuning_registry.entries import MAX_NAME_BYTES
from tuning_registry.errors import RegistryError
from tuning_registry.files import read_bytes
from tuning_registry.names import is_known_arch
from tuning_registry.recordings import parse_recording
from tuning_registry.records import Header, Recording

_SEED = msgspec.json.Decoder(dict[str, dict[str, dict[str, msgspec.Raw]]])


class QuickReader:
    """Reads many recordings; remembers the config texts and names it has already checked."""

    def __init__(self) -> None:
        self._configs: dict[bytes, tuple[str, int]] = {}
        self._names: set[str] = set()

    def read(self, path: Path) -> Recording:
        """The recording in a file; errors as for `recordings.read_recording`."""
        data = read_bytes(path)
        votes = self._read_seed(data)
        if votes is None:
            return parse_recording(data, str(path))
        return Recording(str(path), Header(), votes)

    def _read_seed(self, data: bytes) -> dict[str, dict[str, dict[str, str]]] | None:
        """The votes of a seed recording; None when the strict road must decide.

        A repeated object key would be lost in a dict. It is seen by counting: every member of an object
        has one colon, so a file whose colons are as many as the members kept has lost none. (Colons
        inside names make the count larger, never smaller: such files go the strict road.)
        """
        try:
            document = _SEED.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        known, names, colons = self._configs, self._names, len(document)
        votes: dict[str, dict[str, dict[str, str]]] = {}
        for arch, kernels in document.items():
            if not is_known_arch(arch):
                return None
            colons += len(kernels)
            table: dict[str, dict[str, str]] = {}
            votes[arch] = table
            for kernel, entries in kernels.items():
                colons += len(entries)
                chosen: dict[str, str] = {}
                table[kernel] = chosen
                for key, raw in entries.items():
                    piece = bytes(raw)
                    found = known.get(piece)
                    if found is None:
                        found = _read_config(piece)
                        if found is None:
                            return None
                        known[piece] = found
                    chosen[key] = found[0]
                    colons += found[1]
                if not names.issuperset(entries) and not self._check(entries):
                    return None
            if (
                "" in kernels
                or max(map(len, kernels), default=0) > MAX_NAME_BYTES // 4
                or (not names.issuperset(kernels) and not self._check(kernels))
            ):
                return None
        return votes if colons == data.count(b":") else None

    def _check(self, names: dict[str, dict[str, msgspec.Raw]] | dict[str, msgspec.Raw]) -> bool:
        """Whether both databases can hold these names."""
        try:
            for name in names:
                check_text(name)
        except RegistryError:
            return False
        self._names.update(names)
        return True


def _read_config(piece: bytes) -> tuple[str, int] | None:
    """Canonical text of a config as it stands in a file, and the number of its colons."""
    try:
        recording = parse_recording(b'{"sm0":{"k":{"":' + piece + b"}}}", "")
    except RegistryError:
        return None
    return recording.votes["sm0"]["k"][""], piece.count(b":")
