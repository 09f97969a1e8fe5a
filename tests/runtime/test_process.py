"""Whole processes: what an import loads, the command, launchers, Triton's interpreter."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tuning_registry import merge_records, write
from tuning_registry.formats.recordings import read_recording

ROOT = Path(__file__).parents[2]


def python(*arguments: Any, cwd: Any = ROOT, check: Any = True, **environment: Any) -> Any:
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    ended = subprocess.run([sys.executable, *map(str, arguments)], cwd=cwd, env=variables, capture_output=True, text=True,
                           timeout=240, check=False)  # fmt: skip
    assert not check or ended.returncode == 0, ended.stderr
    return ended


def test_importing_the_runtime_loads_neither_databases_nor_triton() -> None:
    forbidden = {"sqlalchemy", "alembic", "typer", "msgspec", "torch", "triton", "numpy", "argparse", "tuning_registry.db.appending",
                 "tuning_registry.db", "tuning_registry.operations"}  # fmt: skip
    loaded = json.loads(
        python("-c", "import tuning_registry.runtime, sys, json; print(json.dumps(sorted(sys.modules)))").stdout
    )
    assert forbidden & set(loaded) == set()


def test_importing_the_runtime_has_no_side_effect(tmp_path: Path) -> None:
    code = "import threading, atexit, logging, tuning_registry.runtime; print(threading.active_count(), logging.getLogger('tuning_registry').handlers)"
    assert python("-c", code, cwd=tmp_path).stdout.split() == ["1", "[]"]
    assert list(tmp_path.iterdir()) == []


def test_without_triton_install_raises_only_where_the_policy_needs_it() -> None:
    code = """
        import sys
        sys.modules["triton"] = None
        from tuning_registry.errors import PolicyError
        from tuning_registry.runtime import active_policy, coverage_report, install, verify_choices
        print(install({"mode": "auto"}).mode, verify_choices().ranks, coverage_report().reached)
        for needing in ({"mode": "pinned"}, {"record_path": "r"}, {"chaos": True}):
            try:
                install(needing)
            except PolicyError as fault:
                print("needs Triton" in str(fault), active_policy().mode)
    """
    assert python("-c", textwrap.dedent(code)).stdout.splitlines() == ["auto 1 {}", *["True auto"] * 3]


def test_install_touches_no_device() -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    code = """
        import torch, triton
        touched = []
        for name in ("_lazy_init", "get_device_properties", "is_available", "device_count", "current_device"):
            setattr(torch.cuda, name, lambda *a, name=name: touched.append(name))
        class Trap:
            def __getattr__(self, name):
                touched.append(name)
                raise RuntimeError(name)
        triton.runtime.driver = Trap()
        from tuning_registry.runtime import active_policy, control, install
        for policy in ({"mode": "pinned"}, {"record_path": "r"}, {"mode": "auto"}):
            install(policy)
            print(active_policy().mode, touched)
        control.active_session().devices.current()
        print(touched)
    """
    assert python("-c", textwrap.dedent(code)).stdout.splitlines() == [
        "pinned []",
        "record []",
        "auto []",
        "['is_available', 'active']",
    ]


SCRIPT = """
import sys
from tests.runtime.fakes import autotuner, launch
from tuning_registry.runtime import active_policy
launch(autotuner())
print(__name__, sys.argv, sys.path[0], active_policy().to_mapping())
"""


@pytest.fixture
def script(tmp_path: Path) -> Any:
    pytest.importorskip("triton")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "train.py").write_text(SCRIPT)
    (tmp_path / "pack" / "__init__.py").write_text("")
    return tmp_path / "pack" / "train.py"


def test_the_command_runs_a_script_under_the_policy_of_options_over_environment(tmp_path: Path, script: Any) -> None:
    ended = python(
        "-m", "tuning_registry.runtime", "--record-path", tmp_path / "r", "--run=job", "--block-sizes", "A=1", script, "--lr", "0.1", "--run", "x",
        cwd=tmp_path, TUNING_REGISTRY_ARCH="sm90", TUNING_REGISTRY_RUN="other",
    )  # fmt: skip
    policy = {
        "mode": "record",
        "record_path": str(tmp_path / "r"),
        "block_sizes": {"A": 1},
        "run": "job",
        "arch": "sm90",
    }
    assert ended.stdout.strip() == f"__main__ {[str(script), '--lr', '0.1', '--run', 'x']} {script.parent} {policy}"
    (file,) = tmp_path.glob("r.job.*.rank0.json")
    assert list(read_recording(file).votes["sm90"]) == ["pkg.ops.kernel"]


def test_the_command_runs_a_module(tmp_path: Path, script: Any) -> None:
    ended = python("-m", "tuning_registry.runtime", "--deterministic", "-m", "pack.train", "-m", "x", cwd=tmp_path)
    name, rest = ended.stdout.split(" ", 1)
    assert name == "__main__"
    assert "'-m', 'x'" in rest
    assert "{'mode': 'pinned'}" in rest


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--mode", "pin", "x.py"], "invalid choice"), (["--verify-every", "often", "x.py"], "--verify-every: expected an integer"),
     (["--mode", "record", "x.py"], "at --record-path: mode"), ([], "script")],
)  # fmt: skip
def test_a_refused_policy_is_wrong_usage(tmp_path: Path, options: Any, message: Any) -> None:
    ended = python("-m", "tuning_registry.runtime", *options, cwd=tmp_path, check=False)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


PICKLING = """
import atexit, pickle, threading, time

class State:
    pass

def save(when):
    time.sleep(0.2)
    print(when, type(pickle.loads(pickle.dumps(State()))).__module__)

atexit.register(save, "exit")
threading.Thread(target=save, args=("thread",)).start()
"""


@pytest.mark.parametrize("options", [["x.py"], ["-m", "x"], ["folder"]])
def test_what_outlives_the_scripts_last_line_finds_it_as_main(tmp_path: Path, options: Any) -> None:
    (tmp_path / "x.py").write_text(PICKLING)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(PICKLING)
    ended = python("-m", "tuning_registry.runtime", *options, cwd=tmp_path)
    assert ended.stdout.splitlines() == ["thread __main__", "exit __main__"]


@pytest.mark.parametrize(
    "options",
    [["none.py"], ["-m", "none"], ["-m", "none.inner"], ["--record-path", "~nobodyhere/r", "x.py"], ["--mode", "pinned", "--table-path", "t" * 300, "x.py"]],
)  # fmt: skip
def test_what_is_not_there_is_wrong_usage_in_one_line(tmp_path: Path, options: Any) -> None:
    pytest.importorskip("triton")
    (tmp_path / "x.py").write_text("print('ran')")
    ended = python("-m", "tuning_registry.runtime", *options, cwd=tmp_path, check=False)
    errors = [line for line in ended.stderr.splitlines() if not line.startswith("tuning_registry: ")]
    assert (ended.returncode, ended.stdout, len(errors)) == (2, "", 1)


def test_an_error_in_what_a_module_imports_is_shown_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("import not_there")
    ended = python("-m", "tuning_registry.runtime", "-m", "pack.train", cwd=tmp_path, check=False)
    assert ended.returncode == 1
    assert "No module named 'not_there'" in ended.stderr


def test_a_safe_path_keeps_its_first_entry(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.py").write_text("import sys; print(sys.path[:2])")
    first = [str(tmp_path / "first"), str(ROOT)]
    ended = python("-m", "tuning_registry.runtime", "folder/x.py", cwd=tmp_path, PYTHONPATH=":".join(first), PYTHONSAFEPATH="1")  # fmt: skip
    assert ended.stdout.strip() == str(first)


SPAWNING = """
import multiprocessing, os, sys

def work():
    from tuning_registry.runtime import active_policy, install
    os.chdir("/")
    print(active_policy(), install().to_mapping())

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
"""


def test_the_options_reach_a_process_that_the_script_spawns(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "x.py").write_text(SPAWNING)
    ended = python("-m", "tuning_registry.runtime", "--record-path", "r", "--modules", "a,b", "--chaos", "x.py", cwd=tmp_path)  # fmt: skip
    policy = {"mode": "record", "modules": ("a", "b"), "record_path": str(tmp_path / "r"), "chaos": True}
    assert ended.stdout.strip() == f"None {policy}"


def test_the_scripts_own_end_is_the_commands(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("raise SystemExit(7)")
    assert python("-m", "tuning_registry.runtime", "x.py", cwd=tmp_path, check=False).returncode == 7


@pytest.mark.parametrize("launcher", [["--nproc-per-node=2"], ["--nproc-per-node=2", "--standalone"]])
def test_torchrun_ranks_share_one_run(tmp_path: Path, script: Any, launcher: Any) -> None:
    """Plain torchrun names no run; its agent's store does, without a process group."""
    pytest.importorskip("torch")
    port = ["--master-port", str(20000 + os.getpid() % 20000)] if len(launcher) == 1 else []
    python("-m", "torch.distributed.run", *launcher, *port, "-m", "tuning_registry.runtime", "--record-path", tmp_path / "r", "--arch", "sm90", script,
           cwd=tmp_path)  # fmt: skip
    headers = [read_recording(file).header for file in sorted(tmp_path.glob("r.*.json"))]
    assert {header.rank for header in headers} == {0, 1}
    assert {header.world_size for header in headers} == {2}
    assert len({header.run for header in headers}) == 1


SPAWN = """
import sys
import torch.multiprocessing as mp

def work(rank, folder):
    import torch.distributed as dist
    from tests.runtime.fakes import autotuner, launch
    from tuning_registry.runtime import install
    dist.init_process_group("gloo", init_method="file://" + folder + "/store", rank=rank, world_size=2)
    install({"record_path": folder + "/r", "arch": "sm90"})
    launch(autotuner())

if __name__ == "__main__":
    mp.spawn(work, (sys.argv[1],), nprocs=2)
"""


def test_spawned_workers_finish_their_recordings_though_they_run_no_exit_handlers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    (tmp_path / "x.py").write_text(SPAWN)
    python("x.py", tmp_path, cwd=tmp_path)
    assert {read_recording(file).header.rank for file in tmp_path.glob("r.*.json")} == {0, 1}


INTERPRETED = """
import sys, torch, triton, triton.language as tl
from tuning_registry.runtime import choice_log, coverage_report, install

def autotune(fn):
    # Not triton.autotune: the oldest release's asks for a GPU's timer whatever it is given.
    configs = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]
    return triton.runtime.Autotuner(fn, fn.arg_names, configs, ["n"], None, None, do_bench=lambda call, quantiles: [1.0] * 3)

@autotune
@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

def call():
    x = torch.ones(50)
    double[lambda meta: (triton.cdiv(50, meta["BLOCK"]),)](x, 50)
    return x.sum().item()

if sys.argv[1:] == ["alone"]:
    print(call())
else:
    for policy in ({"record_path": sys.argv[1]}, {"mode": "pinned"}):
        install(policy)
        print(call(), choice_log()[0].arch, coverage_report().faults)
"""


def test_tritons_interpreter_records_nothing_and_pins(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "x.py").write_text(INTERPRETED)
    alone = python("x.py", "alone", cwd=tmp_path, check=False, TRITON_INTERPRET="1")
    ended = python("x.py", tmp_path / "r", cwd=tmp_path, check=False, TRITON_INTERPRET="1")
    if alone.returncode == 0:
        assert ended.stdout.splitlines() == ["100.0 unknown {}", "100.0 unknown {}"]
    else:  # the oldest release's interpreter refuses its own autotuner's launch options, with us or without
        assert ended.stderr.splitlines()[-1] == alone.stderr.splitlines()[-1]
    assert ended.stderr.count("interpreter, whose timings are meaningless") == 1
    assert list(tmp_path.glob("r.*")) == []


MOVING = """
import os
from tests.runtime.fakes import autotuner, launch, launched
from tuning_registry.runtime import install, uninstall
kernel = autotuner()
install({"record_path": "new/folder/r", "arch": "sm90"})
os.chdir("/")
launch(kernel)
uninstall()
os.chdir(os.environ["HOME"])
install({"mode": "pinned", "table_path": "tables", "arch": "sm90"})
os.chdir("/")
launch(kernel)
print(launched(kernel)[-1])
"""


def test_relative_paths_are_those_of_the_moment_of_install_and_folders_are_made(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    from tests.runtime.fakes import stored, three, write_table

    write_table(tmp_path / "tables", {"pkg.ops.kernel": {"*": stored(three()[2])}})
    (tmp_path / "x.py").write_text(MOVING)
    assert python("x.py", cwd=tmp_path).stdout.split() == ["32"]
    (file,) = (tmp_path / "new" / "folder").glob("r.*.json")
    assert list(read_recording(file).votes["sm90"]) == ["pkg.ops.kernel"]


def test_the_training_example_records_disagreeing_ranks_and_pins_them_to_one_table(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")

    def example(port: int, *options: object) -> list[str]:
        ended = python("-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port", 20000 + (os.getpid() + port) % 20000,
                       ROOT / "examples" / "train_record_pin.py", *options, cwd=tmp_path, CUDA_VISIBLE_DEVICES="")  # fmt: skip
        # Two ranks share one pipe: a line and its end may be written apart, so a line is what begins with its rank.
        return sorted(line.strip() for line in re.findall(r"rank \d+: .*?(?=rank \d+: |\n|$)", ended.stdout))

    recorded = example(1, "--record-path", tmp_path / "rec")
    assert ["record, timed" in line for line in recorded] == [True, True]
    write("sm90", merge_records(str(tmp_path / "rec.*.json"))["sm90"], tmp_path / "sm90.json")
    pinned = example(2, "--table-path", tmp_path)
    assert ["pinned, table" in line and "disagreements 0 of 1, misses 0" in line for line in pinned] == [True, True]
    assert len({line.partition("loss")[2] for line in pinned}) == 1
