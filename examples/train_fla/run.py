"""Train twice and compare the bits: autotuned as usual, recorded, pinned, and with choices forced apart.

    python examples/train_fla/run.py out/

Starts `train.py` as six jobs of two ranks, each from an empty Triton cache. Two ranks share a GPU if there is only one.

    stock-1, stock-2     plain `python train.py`; tuning-registry is not loaded
    recorded             the same, recorded
    pinned-1, pinned-2   pinned to the table that the recorded ranks elect
    chaos                pinned, with configs that differ between ranks on purpose

Writes out/results.json, out/results.txt, the recordings, the table, and each rank's losses and log. Variables such as
FLA_CACHE_MODE and FLA_CACHE_RESULTS reach every job as they are, and are listed in the results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from results import compared, machine, report, summary

HERE = Path(__file__).resolve().parent
RANKS = 2
NAMES = ("stock-1", "recorded", "pinned-1", "pinned-2", "chaos", "stock-2")  # the last is the first to go without
PAIRS = (("stock-1", "stock-2"), ("stock-1", "recorded"), ("recorded", "pinned-1"), ("pinned-1", "pinned-2"),
         ("pinned-1", "chaos"))  # fmt: skip
VARIABLES = ("FLA_", "TRITON_", "TUNING_REGISTRY_", "CUBLAS_", "CUDA_VISIBLE", "NCCL_", "TORCH")


class Driver:
    """Runs jobs one after the other within a time limit, and keeps what they computed.

    Args:
        folder: Where results go.
        caches: Where each rank of each job gets a Triton cache.
        training: Options of `train.py`.
        limit_s: Seconds for everything.
    """

    def __init__(self, folder: Path, caches: Path, training: list[str], limit_s: float) -> None:
        self.folder = folder
        self.caches = caches
        self.training = training
        self.deadline = time.monotonic() + limit_s
        self.jobs: dict[str, dict[str, Any]] = {}
        self.registry: list[dict[str, Any]] = []

    def job(self, name: str, policy: list[str] | None, limit_s: float) -> None:
        """Run one job of `RANKS` processes; None as policy starts the script by itself."""
        limit_s = min(limit_s, self.deadline - time.monotonic())
        if limit_s < 20:
            self.jobs[name] = {"error": "not started: no time left"}
            print(f"{name}: not started, no time left", flush=True)
            return
        runtime = [] if policy is None else ["-m", "tuning_registry.runtime", *policy]
        command = [sys.executable, "-u", *runtime, str(HERE / "train.py"), str(self.folder / name), *self.training]
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        port, began = free_port(), time.monotonic()
        with contextlib.ExitStack() as stack:
            processes = []
            for rank in range(RANKS):
                log = stack.enter_context((self.folder / name / f"rank{rank}.log").open("w"))
                environment = rank_environment(rank, port, self.caches / f"{name}-{rank}")
                processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log,
                                                  start_new_session=True))  # fmt: skip
            exits = wait(processes, began + limit_s)
        job: dict[str, Any] = {"exits": exits, "job_s": round(time.monotonic() - began, 1)}
        try:
            job |= summary(self.folder / name, RANKS)
        except (OSError, ValueError) as error:
            job["error"] = f"no results: {error}"
        if any(exits):
            tail = (self.folder / name / "rank0.log").read_text(errors="replace")[-1500:]
            job["error"] = f"exit statuses {exits}; the log of rank 0 ends with: {tail}"
        self.jobs[name] = job
        print(f"{name}: {json.dumps({k: v for k, v in job.items() if k != 'ranks'})}", flush=True)

    def ask_registry(self, *arguments: str) -> str:
        """Run one `registry` command; returns what it prints."""
        command = [sys.executable, "-m", "tuning_registry", "--db", f"sqlite:///{self.folder / 'registry.db'}",
                   *arguments]  # fmt: skip
        done = subprocess.run(command, env=environment_with_package(), capture_output=True, text=True, check=False,
                              timeout=120)  # fmt: skip
        self.registry.append({"command": " ".join(("registry", *arguments)), "exit": done.returncode,
                              "stderr": done.stderr[-1500:]})  # fmt: skip
        print(f"registry {arguments[0]}: exit {done.returncode} {done.stderr.strip()[:300]}", flush=True)
        if done.returncode:
            raise RuntimeError(f"registry {arguments[0]} failed: {done.stderr[-500:]}")
        return done.stdout

    def elect(self) -> None:
        """Put the recordings into a database, and export the tables that the pinned jobs use."""
        recordings = sorted(self.folder.glob("rec.*.json"))
        self.ask_registry("ingest", *map(str, recordings))
        (arch,) = json.loads(recordings[0].read_text())["votes"]
        for policy in ("majority", "fastest"):
            table = self.folder / "tables" / policy / f"{arch}.json"
            table.parent.mkdir(parents=True, exist_ok=True)
            self.ask_registry("export", "--arch", arch, "--policy", policy, "-o", str(table))
        rows = json.loads(self.ask_registry("disagreements", "--arch", arch, "--format", "json"))
        table = json.loads((self.folder / "tables" / "majority" / f"{arch}.json").read_text())
        self.jobs["recorded"] |= {
            "entries": sum(map(len, table["kernels"].values())),
            "disagreements": len({(row["kernel"], row["key"]) for row in rows}),
            "table_digest": table["tuning_registry"]["digest"],
        }

    def results(self) -> dict[str, Any]:
        """Everything that was found, as far as the run has come."""
        return {
            "machine": machine(),
            "training": self.training,
            "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(VARIABLES)},
            "jobs": self.jobs,
            "comparisons": [compared(self.jobs, *pair) for pair in PAIRS],
            "registry": self.registry,
        }

    def write(self) -> None:
        """Write the results so far."""
        results = self.results()
        (self.folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (self.folder / "results.txt").write_text(report(results))


def wait(processes: list[subprocess.Popen[bytes]], deadline: float) -> list[int]:
    """Exit statuses of a job's ranks; if one fails or time is up, all that are left are ended."""
    while any(process.poll() is None for process in processes):
        if time.monotonic() > deadline or any(process.poll() for process in processes):
            time.sleep(1)  # the others may be about to fail by themselves
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.05)
    return [process.returncode for process in processes]


def environment_with_package() -> dict[str, str]:
    """The environment, in which this checkout's package can be imported."""
    paths = [str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def rank_environment(rank: int, port: int, cache: Path) -> dict[str, str]:
    """What torchrun sets for a rank on one node, and a Triton cache for this rank alone."""
    return {
        **environment_with_package(), "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
        "TRITON_CACHE_DIR": str(cache),
    }  # fmt: skip


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def cache_folder(stated: Path | None) -> Iterator[Path]:
    """The stated folder, or one that is deleted at the end."""
    if stated is not None:
        stated.mkdir(parents=True, exist_ok=True)
        yield stated
        return
    with tempfile.TemporaryDirectory(prefix="train-fla-") as name:
        yield Path(name)


def copy_compiled(source: Path, target: Path) -> None:
    """Copy what Triton compiled, without the results of tuning, which fla keeps there."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.autotune.json"), dirs_exist_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for the results")
    parser.add_argument("--steps", type=int, default=120, help="steps of each job")
    parser.add_argument("--quick", action="store_true", help="20 steps, two layers; stock-2 reuses compiled kernels")
    parser.add_argument("--reuse-compiled", action="store_true",
                        help="stock-2 starts with the kernels that stock-1 compiled, and times them again")  # fmt: skip
    parser.add_argument("--caches", type=Path, help="keep the Triton caches in this folder")
    parser.add_argument(
        "--limit-s", type=float, default=600, help="seconds for everything; jobs that do not fit are left out"
    )
    parser.add_argument("--job-limit-s", type=float, default=240, help="seconds for each job")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    training = ["--steps", "20", "--layers", "2"] if options.quick else ["--steps", str(options.steps)]
    with cache_folder(options.caches) as caches:
        driver = Driver(folder, caches, training, options.limit_s)
        pinned = ["--mode", "pinned", "--table-path", str(folder / "tables" / "majority"), "--on-miss", "error"]
        policies: dict[str, list[str] | None] = {
            "stock-1": None, "stock-2": None, "pinned-1": pinned, "pinned-2": pinned,
            "recorded": ["--record-path", str(folder / "rec"), "--run-name", "train-fla"],
            "chaos": ["--mode", "pinned", "--chaos", "--run-name", "chaos"],
        }  # fmt: skip
        for name in NAMES:
            try:
                if name == "stock-2" and (options.quick or options.reuse_compiled):
                    for rank in range(RANKS):
                        copy_compiled(caches / f"stock-1-{rank}", caches / f"stock-2-{rank}")
                driver.job(name, policies[name], options.job_limit_s)
                if name == "recorded" and "error" not in driver.jobs[name]:
                    driver.elect()
            except Exception as error:  # noqa: BLE001 - the other jobs still tell something
                driver.jobs.setdefault(name, {})["error"] = f"{type(error).__name__}: {error}"
                print(f"{name}: {error}", flush=True)
            driver.write()
    print((folder / "results.txt").read_text(), flush=True)
    return 1 if any("error" in job for job in driver.jobs.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
