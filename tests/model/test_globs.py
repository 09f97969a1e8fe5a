"""Patterns: as the standard library matches file names, and the same in both databases."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import config, write_recording
from tuning_registry.db.store import Store
from tuning_registry.model.globs import glob_regex, is_glob, matches_kernel
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.ingest import ingest

TEXT = st.text("ab.*?[]!^\\_\n1|{}(", max_size=8)


@given(TEXT, TEXT)
def test_a_pattern_matches_as_in_the_standard_library(pattern: str, text: str) -> None:
    assert (re.search(glob_regex(pattern), text) is not None) == fnmatch.fnmatchcase(text, pattern)


@pytest.mark.parametrize(("pattern", "text", "matches"), [
    ("[a-c]x", "bx", True), ("[c-a]x", "bx", False), ("[c-a]x", "[c-a]x", True), ("[!a]", "b", True), ("[]]", "]", True),
    ("a_b", "axb", False), ("A*", "ab", False),
])  # fmt: skip
def test_classes_and_case(pattern: str, text: str, matches: bool) -> None:
    assert (re.search(glob_regex(pattern), text) is not None) is matches


KERNELS = [
    "pkg.norm.l2_fwd",
    "pkg.norm.l2xfwd",
    "pkg.norm.L2_FWD",
    "pkg.norm.fwd",
    "l2_fwd",
    "pkg.odd[1]",
    "pkg.a\\d",
    "é",
]
PATTERNS = ["*", "l2_*", "pkg.*", "*.norm.*", "l2?fwd", "l2[_x]fwd", "l2[!_]fwd", "*[0-9]*", "pkg.odd[1]", "*\\*", "?", "L*",
            "nothing*", "[z-a]*"]  # fmt: skip


def test_both_databases_match_as_python_does(store: Store, tmp_path: Path) -> None:
    votes = {"sm90": {kernel: {"M=1": config()} for kernel in KERNELS}}
    ingest(store, write_recording(tmp_path / "rec.rank0.json", votes))
    for pattern in PATTERNS:
        assert is_glob(pattern)
        found = {entry.kernel for entry in find_winners(store, Selection(kernel=pattern))}
        assert found == {kernel for kernel in KERNELS if matches_kernel(pattern, kernel)}, pattern
    assert {kernel for kernel in KERNELS if matches_kernel("l2?fwd", kernel)} == {*KERNELS[:2], "l2_fwd"}
