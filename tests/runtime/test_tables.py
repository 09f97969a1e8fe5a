"""The tables that a policy pins from."""

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, KEY, autotuner, launch, launched, stored, three, write_table
from tuning_registry.errors import PolicyError
from tuning_registry.formats import table as table_module
from tuning_registry.formats.files import read_bytes
from tuning_registry.runtime import install

NAME = "pkg.ops.kernel"


def test_a_table_file_is_read_once_from_install_to_the_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def counting(path: Path) -> bytes:
        reads.append(path)
        return read_bytes(path)

    monkeypatch.setattr(table_module, "read_bytes", counting)
    path = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}})
    install(mode="pinned", table_path=path, arch=ARCH)
    assert reads == [path]
    path.unlink()  # what was checked is what is used
    path.write_text("{}")
    for kernel in (autotuner(), autotuner()):
        launch(kernel)
        assert launched(kernel) == [128]
    assert reads == [path]


def test_an_empty_table_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path, {})
    install(mode="pinned", table_path=path, arch=ARCH)
    monkeypatch.setattr(table_module, "read_bytes", lambda path: pytest.fail("read again"))
    launch(kernel := autotuner())
    assert launched(kernel) == [32]


def test_of_several_paths_the_first_table_of_the_architecture_is_used(tmp_path: Path) -> None:
    paths = [
        write_table(tmp_path / str(number), {NAME: {KEY: stored(three()[number])}}, arch=arch)
        for number, arch in enumerate(("sm80", ARCH, ARCH))
    ]
    install(mode="pinned", table_path=paths, arch=ARCH)
    launch(kernel := autotuner())
    assert launched(kernel) == [64]


@pytest.mark.parametrize(("content", "message"), [("{}", "not a per-arch table"), ('{"arch": ', "cut off")])
def test_a_file_that_is_not_a_table_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "sm90.json").write_text(content)
    with pytest.raises(PolicyError, match=message):
        install(mode="pinned", table_path=tmp_path / "sm90.json")
    assert install(mode="pinned", table_path=tmp_path).mode == "pinned"
