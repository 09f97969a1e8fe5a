"""What decided the configs of this process, as a flat dict."""

from pathlib import Path

import pytest

from tests.runtime.fakes import ARCH, KEY, NAME, Tensor, autotuner, launch, stored, three, triton, write_table
from tuning_registry import __version__
from tuning_registry.errors import PolicyError
from tuning_registry.formats.table import read_table
from tuning_registry.runtime import choice_digest, install, provenance, uninstall


def test_without_a_policy_only_versions_are_known() -> None:
    assert provenance() == {
        "tuning_registry.version": __version__,
        "tuning_registry.triton": triton.__version__,
        "tuning_registry.mode": "none",
    }


def test_a_pinned_process_states_its_table_its_hits_and_its_misses(tmp_path: Path) -> None:
    ban = {"action": "ban", "kernel": NAME, "key": "*", "config": stored(three()[2]), "reason": "wrong"}
    file = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}}, extra={"overrides": [ban]})
    install(mode="pinned", table_path=tmp_path, arch=ARCH)
    launch(autotuner())
    launch(autotuner(name="other"))
    launch(autotuner(), Tensor(), Tensor(), 32)
    table = read_table(file)
    stated = provenance()
    assert stated == {
        "tuning_registry.version": __version__,
        "tuning_registry.triton": triton.__version__,
        "tuning_registry.mode": "pinned",
        "tuning_registry.choice_digest": choice_digest(),
        "tuning_registry.keys": 3,
        "tuning_registry.hits": 1,
        "tuning_registry.misses": 2,
        "tuning_registry.nearest": 1,
        "tuning_registry.table_file": str(file),
        "tuning_registry.table_digest": table.digest,
        "tuning_registry.selection_digest": table.selection_digest,
    }
    assert {type(value) for value in stated.values()} == {str, int}


def test_a_checkpoint_is_resumed_with_the_same_table_only(tmp_path: Path) -> None:
    write_table(tmp_path, {NAME: {KEY: stored(three()[0])}})
    install(mode="pinned", table_path=tmp_path, arch=ARCH)
    launch(autotuner())
    expected = provenance()["tuning_registry.selection_digest"]
    uninstall()
    install(mode="pinned", table_path=tmp_path, arch=ARCH, expect_digest=expected)
    uninstall()
    write_table(tmp_path, {NAME: {KEY: stored(three()[1])}})
    with pytest.raises(PolicyError, match="expect_digest"):
        install(mode="pinned", table_path=tmp_path, arch=ARCH, expect_digest=expected)
