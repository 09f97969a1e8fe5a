"""Curated choices compared between projects, versions, and Triton versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.formats.tools.helpers import TOOLS
from tests.helpers import on_sqlite, take
from tests.operations.ingest.test_tools import H200, write
from tuning_registry.db.store import Store
from tuning_registry.model.origins import Dimension
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import ingest
from tuning_registry.operations.reports.between import compare_sources

MOE = Selection(kernel="fused_moe_kernel")


def counted(one: str, other: str) -> tuple[int, int]:
    """Shared and differing entries of two files, by reading them as JSON."""
    left, right = (json.loads((TOOLS / name).read_text()) for name in (one, other))
    shared = (left.keys() & right.keys()) - {"triton_version"}
    return len(shared), sum(left[key] != right[key] for key in shared)


PAIRS = [
    ("E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128]", "3_1_0"),
    ("E=160,N=192,device_name=NVIDIA_H200,dtype=fp8_w8a8", "3_3_1"),
    ("E=64,N=1536,device_name=NVIDIA_H100_80GB_HBM3", "3_5_1"),
    ("E=128,N=384,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128]", "3_6_0"),
]


def test_between_projects(store: Store) -> None:
    ingest(store, TOOLS)
    found = compare_sources(store, MOE, Dimension.SOURCE)
    expected = [
        counted(f"vllm/fused_moe/{name}.json",
                f"sglang/fused_moe/configs/triton_{version}/{name.replace('[128,128]', '[128, 128]')}.json")
        for name, version in PAIRS
    ]  # fmt: skip
    assert (found.files, found.identical) == (4, 0)
    assert (found.compared, len(found.differing)) == tuple(map(sum, zip(*expected, strict=True))) == (73, 64)
    first = found.differing[0]
    assert [one.sources for one in first.choices] == [("sglang, Triton 3.6.0",), ("vllm",)]


def test_between_triton_versions(store: Store) -> None:
    ingest(store, TOOLS)
    found = compare_sources(store, Selection(), Dimension.TRITON)
    assert (found.files, found.compared, len(found.differing)) == (1, 14, 14)  # entries that all three versions have
    (same,) = {len(one.choices) for one in found.differing if one.key.endswith("|M=96")}
    assert same == 2  # 3.2.0 and 3.3.1 agree there


def test_between_versions_of_a_project(store: Store, tmp_path: Path) -> None:
    for version, warps in (("0.32.0", 4), ("0.33.0", 8)):
        file = write(tmp_path / version / "vllm", H200, {"16": {"num_warps": warps}, "32": {"num_warps": 4}})
        (tmp_path / version / f"vllm-{version}.dist-info").mkdir()
        take(store, file, run=None)
    found = compare_sources(store, Selection(), Dimension.VERSION)
    assert (found.files, found.compared) == (1, 2)
    (only,) = found.differing
    assert [one.sources for one in only.choices] == [("vllm 0.32.0",), ("vllm 0.33.0",)]
    assert compare_sources(store, Selection(), Dimension.SOURCE).compared == 0


def test_a_superseded_file_is_not_compared(store: Store, tmp_path: Path) -> None:
    take(store, write(tmp_path / "sglang", H200, {"16": {"num_warps": 4}}), run=None)
    ours = tmp_path / "vllm"
    take(store, write(ours, H200, {"16": {"num_warps": 8}}), run=None)
    take(store, write(ours, H200, {"16": {"num_warps": 4}}), run=None, replace=True)
    found = compare_sources(store, Selection(), Dimension.SOURCE)
    assert (found.compared, found.identical, found.differing) == (1, 1, [])


def test_the_device_and_kernel_filters(store: Store) -> None:
    ingest(store, TOOLS)
    h100 = Selection(device="NVIDIA_H100_80GB_HBM3")
    assert compare_sources(store, h100, Dimension.SOURCE).compared == 19
    assert compare_sources(store, Selection(kernel="w8a8*"), Dimension.SOURCE).compared == 18


@on_sqlite
@pytest.mark.parametrize("style", ["table", "csv", "json", "markdown"])
def test_the_command_in_every_format(cli: Cli, style: str) -> None:
    cli("ingest", TOOLS)
    done = cli("disagreements", "--between", "source", "--kernel", "fused_moe_kernel", "--format", style)
    assert done.exit_code == 0
    assert done.stderr.endswith("64 of 73 entries differ between sources, in 4 pairs of files for the same shapes\n")
    assert "sglang, Triton 3.6.0" in done.stdout
    if style == "json":
        document = json.loads(done.stdout)
        assert (document["compared_entries"], len(document["entries"])) == (73, 64)
        assert document["entries"][0]["choices"][0]["config"].keys() == {"launch"}


@on_sqlite
def test_exit_statuses(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", write(tmp_path / "vllm", H200), write(tmp_path / "sglang", H200))
    assert cli("disagreements", "--between", "source", "--exit-code").exit_code == 0
    nothing = cli("disagreements", "--between", "triton", "--exit-code")
    assert (nothing.exit_code, "nothing to compare: no files of different Triton" in nothing.stderr) == (1, True)
    assert cli("disagreements", "--between", "source", "--cost").exit_code == 2
    assert cli("disagreements", "--between", "rank").exit_code == 2
