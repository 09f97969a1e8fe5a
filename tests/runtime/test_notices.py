"""What a job logs at its start, at its end, and if a setting has no effect."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, KEY, NAME, Tensor, autotuner, launch, stored, three, write_table
from tests.runtime.test_process import python
from tuning_registry.formats.table import read_table
from tuning_registry.runtime import AutotunePolicy, install, uninstall
from tuning_registry.runtime.recording import hand_in


def told(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [r.getMessage().removeprefix("tuning_registry: ") for r in caplog.records if r.levelno >= level]


def make_package(folder: Path) -> None:
    """Make the module of the fake kernels importable, as the modules of a job are."""
    (folder / f"{NAME.partition('.')[0]}.py").touch()


def test_a_recording_job_says_at_level_info_what_it_does_and_did(
    tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    caplog.set_level(logging.INFO)
    install(AutotunePolicy(record_path=tmp_path / "r", arch=ARCH, run="job"))
    launch(autotuner())
    launch(autotuner([three()[0], three()[0]], name="other"))
    uninstall()
    (file,) = tmp_path.glob("r.*.json")
    assert told(caplog, logging.INFO) == [f"recording to {tmp_path / 'r'}", f"recorded 2 votes to {file}"]


def test_a_pinned_job_says_at_level_info_which_table_it_pins_to(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    table = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}}, triton="3.0.1")
    install(AutotunePolicy(mode="pinned", table_path=tmp_path, arch=ARCH))
    launch(autotuner())
    said = told(caplog, logging.INFO)
    assert said[0] == f"pinning from {table}: 1 entry, Triton 3.0.1, digest {read_table(table).digest[:12]}..."


def test_variables_that_a_given_policy_leaves_unused_are_named(monkeypatch: Any, tmp_path: Path, caplog: Any) -> None:
    for name, value in {
        "MODE": "pinned",
        "ARCH": ARCH,
        "RUN": "job",
        "SOURCE": "s",
        "TABLE_PATH": str(tmp_path),
    }.items():
        monkeypatch.setenv(f"TUNING_REGISTRY_{name}", value)
    install(AutotunePolicy(record_path=tmp_path / "r", source="s"))
    (said,) = told(caplog)
    assert said.endswith("are ignored: TUNING_REGISTRY_ARCH, TUNING_REGISTRY_MODE")
    caplog.clear()
    install()
    install(AutotunePolicy(mode="pinned", arch=ARCH, source="s", run="mine"))
    assert [said.rpartition(": ")[2] for said in told(caplog)] == ["TUNING_REGISTRY_RUN"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNING_REGISTRY_RECORD_PATH", str(tmp_path / "r"))
    monkeypatch.setenv("TUNING_REGISTRY_CHAOS", "0")
    caplog.clear()
    install(AutotunePolicy(mode="pinned", arch=ARCH, source="s", record_path="r", chaos=True))
    assert [said.rpartition(": ")[2] for said in told(caplog)] == ["TUNING_REGISTRY_CHAOS"]
    monkeypatch.setenv("TUNING_REGISTRY_MODE", "of")  # the kill switch, mistyped
    caplog.clear()
    install(AutotunePolicy(mode="pinned", arch=ARCH))
    (said,) = told(caplog)
    assert "TUNING_REGISTRY_MODE" in said
    assert "'of'" in said


def test_a_process_without_a_gpu_is_told_once(tmp_path: Path, caplog: Any) -> None:
    for policy in (AutotunePolicy(record_path=tmp_path / "r"), AutotunePolicy(mode="pinned", table_path=tmp_path)):
        caplog.clear()
        install(policy)
        for kernel in (autotuner(), autotuner(name="other")):
            launch(kernel)
        uninstall()
        assert len([said for said in told(caplog) if "no GPU" in said and "arch" in said]) == 1
    caplog.clear()
    install(AutotunePolicy())
    launch(autotuner())
    assert told(caplog) == []


@pytest.mark.parametrize(("mode", "what"), [("record", "nothing was recorded"), ("pinned", "nothing was in scope")])
def test_a_scope_that_no_kernel_lies_in_is_named_at_the_end(mode: Any, what: Any, tmp_path: Path, caplog: Any) -> None:
    install(AutotunePolicy(mode=mode, record_path=tmp_path / "r", modules=("pkgs", "fla"), arch=ARCH))
    launch(autotuner())
    uninstall()
    (said,) = [said for said in told(caplog) if what in said]
    assert "modules=pkgs,fla" in said
    assert NAME in said
    caplog.clear()
    install(AutotunePolicy(mode=mode, record_path=tmp_path / "r", modules=("pkgs", "pkg"), arch=ARCH))
    launch(autotuner())
    uninstall()
    assert [said for said in told(caplog) if "nothing was" in said] == []


def test_block_sizes_that_no_candidate_has_are_named_with_the_miss(tmp_path: Path, caplog: Any) -> None:
    install(AutotunePolicy(mode="pinned", table_path=tmp_path, arch=ARCH, block_sizes={"BLOCK_M": 63}))
    launch(autotuner())
    (miss,) = [said for said in told(caplog) if said.startswith("miss (")]
    assert "no candidate has the policy's block_sizes" in miss


def test_kernels_of_the_script_itself_are_said_to_share_their_name(
    tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    install(AutotunePolicy(record_path=tmp_path / "r", arch=ARCH, run="job"))
    for name in ("kernel", "other"):
        launch(autotuner(name=name, module="__main__"))
    uninstall()
    (said,) = told(caplog)
    assert "recorded under __main__" in said
    caplog.clear()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    install(AutotunePolicy(record_path=tmp_path / "r", arch=ARCH, run="job"))
    launch(autotuner(module="__main__"))
    uninstall()
    assert told(caplog) == []


def test_rank_0_is_told_of_another_job_of_its_name(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    make_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    policy = AutotunePolicy(record_path=tmp_path / "r", arch=ARCH, run="nightly")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        (tmp_path / f"r.nightly.node.7.rank{rank}.json").write_text('{"run": "nightly"}')
        install(policy)
        launch(autotuner())
        launch(autotuner(), Tensor(), Tensor(), 32)
        uninstall()
    assert len(told(caplog)) == 1
    assert "another process also recorded rank 0 of run nightly" in told(caplog)[0]
    caplog.clear()
    monkeypatch.setenv("RANK", "0")
    for run in ("lr0.1", "lr0-1"):  # the same in the name of a file
        install(AutotunePolicy(record_path=tmp_path / "s", arch=ARCH, run=run))
        launch(autotuner())
        uninstall()
    assert told(caplog) == []


@pytest.mark.parametrize(("url", "missing"), [("postgresql://h/d", "psycopg is not installed, so the recording will stay in a file"),
                                              ("sqlite:////r.db", None)])  # fmt: skip
def test_a_database_that_no_package_here_can_reach_is_named_at_install(
    url: Any, missing: Any, monkeypatch: Any, caplog: Any
) -> None:
    monkeypatch.setattr(hand_in, "find_spec", lambda name: None if name == "psycopg" else name)
    install(AutotunePolicy(record_path=url, arch=ARCH, run="job"))
    assert [said.startswith(missing or "?") for said in told(caplog)] == ([True] if missing else [])


JOB = """
import tests.runtime.fakes as fakes
fakes.launch(fakes.autotuner())
"""


def test_verbose_and_enumerating_runs_print_our_log_once_and_plainly(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    make_package(tmp_path)
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "logging_job.py").write_text("import logging; logging.basicConfig(format='%(name)s|%(message)s')" + JOB)
    options = ("-m", "tuning_registry.runtime", "--arch", ARCH, "--record-path", tmp_path / "r", "--run-name", "job")
    said = python(*options, "-v", "job.py", cwd=tmp_path).stderr.splitlines()
    assert [line.split(".job.")[0] for line in said] == [
        f"tuning_registry: recording to {tmp_path / 'r'}",
        f"tuning_registry: recorded 1 vote to {tmp_path / 'r'}",
    ]
    said = python(*options, "-v", "logging_job.py", cwd=tmp_path).stderr.splitlines()
    assert len([line for line in said if "recorded 1 vote" in line]) == 1
    assert said[-1].startswith("tuning_registry|tuning_registry: recorded 1 vote to ")
    said = python(*options, "--enumerate-autotuners", "job.py", cwd=tmp_path).stderr
    assert f"autotuner {NAME} (3 candidates): timed" in said
    assert python(*options, "job.py", cwd=tmp_path).stderr.count("another process") == 1  # rank 0 of a run once more


def test_repeated_options_are_one_list_and_a_folder_without_main_is_wrong_usage(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name in ("one", "two"):
        write_table(tmp_path / name, {NAME: {KEY: stored(three()[0])}}, arch=ARCH if name == "two" else "sm80")
    (tmp_path / "job.py").write_text(JOB)
    options = (
        "-m",
        "tuning_registry.runtime",
        "--mode",
        "pinned",
        "--arch",
        ARCH,
        "--table-path",
        "one",
        "--table-path",
        "two",
    )
    ended = python(*options, "--on-miss", "error", "job.py", cwd=tmp_path)
    assert f"{tmp_path / 'one'} holds no {ARCH}.json" in ended.stderr
    ended = python("-m", "tuning_registry.runtime", "one", cwd=tmp_path, check=False)
    (error,) = [line for line in ended.stderr.splitlines() if not line.startswith("tuning_registry: ")]
    assert (ended.returncode, error) == (2, "python -m tuning_registry.runtime: no __main__.py in one")
    ended = python("-m", "tuning_registry.runtime", "job.py", cwd=tmp_path, check=False, TUNING_REGISTRY_MODE="pined")
    assert ended.stderr.startswith("python -m tuning_registry.runtime: at TUNING_REGISTRY_MODE: expected one of")


def test_a_script_with_its_own_policy_is_told_which_options_are_ignored(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "job.py").write_text("from tuning_registry.runtime import install\ninstall({'mode': 'auto'})")
    ended = python("-m", "tuning_registry.runtime", "--mode", "pinned", "--arch", ARCH, "job.py", cwd=tmp_path)
    assert "are ignored: TUNING_REGISTRY_ARCH, TUNING_REGISTRY_MODE\n" in ended.stderr
