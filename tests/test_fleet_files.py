"""The files of examples/fleet, each checked by the tool that it is for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tuning_registry.rendering.prometheus import NUMBERS, PREFIX, TIMES

FLEET = ROOT / "examples" / "fleet"


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("file", ["kubernetes.yaml", "training-job.yaml"])
def test_manifests_follow_the_schemas_of_kubernetes(file: str, tmp_path: Path) -> None:
    good = run(sys.executable, "-m", "kubernetes_validate", "--strict", FLEET / file)
    assert good.returncode == 0, good.stdout + good.stderr
    wrong = tmp_path / file
    wrong.write_text((FLEET / file).read_text().replace("restartPolicy:", "restartPolice:"))
    assert run(sys.executable, "-m", "kubernetes_validate", "--strict", wrong).returncode != 0


def test_the_unit_of_the_service_is_accepted_by_systemd(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed on this machine (Debian's package systemd has it)")
    unit = (FLEET / "registry-fold.service").read_text()
    command = re.findall(r"^ExecStart=(\S+) fold --every 30s$", unit, re.MULTILINE)
    assert command == ["/opt/tuning-registry/bin/registry"]
    assert verified(program, tmp_path, unit.replace(command[0], sys.executable)) == ""
    assert "Unknown key" in verified(program, tmp_path, unit.replace("[Service]", "[Service]\nStopping=120s"))


def verified(program: str, folder: Path, unit: str) -> str:
    """What systemd says about a unit; it accepts unknown settings with a warning."""
    file = folder / "registry-fold.service"
    file.write_text(unit)
    found = run(program, "verify", "--man=no", file)
    return found.stdout + found.stderr + (f"exit status {found.returncode}" if found.returncode else "")


def test_alert_rules_are_accepted_by_prometheus() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed on this machine (Debian's package prometheus has it)")
    found = run(program, "check", "rules", FLEET / "alerts.yaml")
    assert (found.returncode, "2 rules found" in found.stdout) == (0, True), found.stderr


def test_alert_rules_name_metrics_that_exist() -> None:
    named = set(re.findall(rf"{PREFIX}\w+", (FLEET / "alerts.yaml").read_text()))
    existing = {*NUMBERS, *(f"{name}_timestamp_seconds" for name in TIMES)}
    assert len(named) == 2
    assert named <= {PREFIX + name for name in existing}
