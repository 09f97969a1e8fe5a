"""Faults and names in the log: each has a text, and none can drive a terminal."""

import logging
from pathlib import Path
from typing import Any

from tests.runtime.fakes import ARCH, Tensor, autotuner, launch, stored, three, write_table
from tuning_registry.runtime import AutotunePolicy, coverage_report, install
from tuning_registry.runtime.guard import count_fault


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_without_a_text_is_logged_by_its_type_and_a_traceback_is_inert(caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    count_fault("trying", WordlessError())
    count_fault("looking", ValueError("bad\x1b[2J"))
    said = [record.getMessage() for record in caplog.records]
    assert any("trying failed" in message and "<WordlessError>" in message for message in said)
    assert all(line.isprintable() for message in said for line in message.split("\n"))


def test_text_from_names_and_keys_cannot_drive_a_terminal_out_of_the_log(tmp_path: Path, caplog: Any) -> None:
    path = write_table(tmp_path, {"pkg.ops.kernel": {"*": stored(three()[0])}})
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH))
    launch(autotuner(name="bad\nname\x1b[31m", key=("M",)), Tensor(), Tensor(), "a\r\nb")
    said = [record.getMessage() for record in caplog.records]
    assert any("bad\\nname\\x1b[31m" in message for message in said)
    assert all(message.isprintable() for message in said)
    assert all(line.isprintable() for line in str(coverage_report()).split("\n"))
