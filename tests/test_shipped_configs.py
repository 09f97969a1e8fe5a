"""The example that compares what vLLM and SGLang ship, on wheels made of a few of their files."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.conftest import ROOT
from tests.formats.tools.helpers import TOOLS

PLACES = {
    "vllm": {"fused_moe": "vllm/model_executor/layers/fused_moe/configs"},
    "sglang": {"fused_moe/configs": "sglang/srt/layers/moe/moe_runner/triton_utils/configs"},
}
VERSIONS = {"vllm": "0.33.0", "sglang": "0.5.23"}


def make_wheel(folder: Path, project: str) -> Path:
    wheel = folder / f"{project}-{VERSIONS[project]}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for ours, theirs in PLACES[project].items():
            for file in sorted((TOOLS / project / ours).rglob("*.json")):
                archive.write(file, f"{theirs}/{file.relative_to(TOOLS / project / ours)}")
        archive.writestr(f"{project}-{VERSIONS[project]}.dist-info/METADATA", f"Name: {project}\n")
        archive.writestr(f"{project}/__init__.py", "raise SystemExit('imported')")
        archive.writestr("../triton_utils/configs/triton_3_0_0/outside.json", "{}")
    return wheel


def test_both_findings_come_out(tmp_path: Path) -> None:
    wheels = [make_wheel(tmp_path, project) for project in PLACES]
    command = [sys.executable, "examples/shipped_configs.py", *map(str, wheels), "--into", str(tmp_path / "into")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "ingested 12 files with 210 curated choices" in done.stdout
    assert "64 of 73 entries differ between sources, in 4 pairs of files for the same shapes\n" in done.stdout
    assert "14 of 14 entries changed with the Triton version, in 1 file for several versions\n" in done.stdout
    assert not (tmp_path / "triton_utils").exists()
    assert not list((tmp_path / "into").rglob("*.py"))
