#!/usr/bin/env python3
"""Fuzz the readers of recordings, tables and Triton caches, guided by coverage.

usage: fuzz_readers.py [CORPUS_FOLDER] [-max_total_time=60] [...libFuzzer's options]      (needs `pip install atheris`)

For any input, a reader must return a value or raise an error of this package, and the two readers of recordings must
agree. Anything else ends the run and leaves the input in a file.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-untyped]  # installed by hand

with atheris.instrument_imports(include=["tuning_registry"]):
    from tuning_registry.errors import RegistryError
    from tuning_registry.formats.fast_reader import QuickReader
    from tuning_registry.formats.recordings import parse_recording
    from tuning_registry.formats.table import read_table
    from tuning_registry.formats.triton_cache import TritonCache, read_cache

FILE = Path(tempfile.mkdtemp()) / "k.autotune.json"


def feed(data: bytes) -> None:
    """One input to every reader."""
    try:
        strict = parse_recording(data, "r.json")
    except RegistryError:
        strict = None
    quick = QuickReader().read_quickly(data.removeprefix(b"\xef\xbb\xbf"), "r.json")
    if quick is not None and quick != strict:
        raise AssertionError("the two readers differ")
    FILE.write_bytes(data)
    for read in (lambda: read_table(FILE),
                 lambda: read_cache(TritonCache(FILE.parent, (FILE,)), arch="sm90", triton="3.6.0", votes=True)):  # fmt: skip
        try:
            read()
        except RegistryError as error:
            if "\n" in str(error) or "\x1b" in str(error):
                raise AssertionError("an error that is not one plain line") from error


def seeds(folder: Path) -> None:
    """Real files of every kind to begin with."""
    root = Path(__file__).resolve().parent.parent
    real = [*root.glob("examples/h200/*.rank0.json"), *root.glob("tests/data/triton-*/*/*.json"),
            *root.glob("tuning_registry/tables/*.json")]  # fmt: skip
    for number, file in enumerate(real):
        (folder / f"real{number}.json").write_bytes(file.read_bytes()[:4000])
    config = '{"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3}'
    (folder / "seed.json").write_text(f'{{"sm90": {{"k": {{"M=1": {config}}}}}}}')
    (folder / "timings.json").write_text(f'{{"sm90": {{"k": {{"M=1": [[{config}, [1, 1, Infinity]]]}}}}}}')
    (folder / "one.json").write_text(
        '{"format": "tuning-registry recording", "version": 1, "run": "r", "rank": 0, '
        f'"votes": {{"sm90": {{"k": {{"M=1": {config}}}}}}}}}'
    )


if __name__ == "__main__":
    folders = [word for word in sys.argv[1:] if not word.startswith("-")]
    corpus = Path(folders[0]) if folders else Path(tempfile.mkdtemp())
    corpus.mkdir(parents=True, exist_ok=True)
    if not any(corpus.iterdir()):
        seeds(corpus)
    atheris.Setup([sys.argv[0], str(corpus), *(word for word in sys.argv[1:] if word.startswith("-"))], feed)
    atheris.Fuzz()
