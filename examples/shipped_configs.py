"""Compare the launch configs that vLLM and SGLang ship: where the two differ, and which changed with the Triton version.

    python examples/shipped_configs.py            # downloads the two wheels with pip (375 MB)
    python examples/shipped_configs.py WHEEL...   # or takes wheels that are there

Only the JSON files are unpacked. `registry ingest` finds out what each of them is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

RELEASES = ("vllm==0.33.0", "sglang==0.5.23")
# Wheels for any Linux: none of their code is run.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (28, 31, 34, 35)] + ["manylinux1_x86_64"]
TABLES = ("fused_moe/configs/", "quantization/utils/configs/", "configs/selective_state_update/",
          "triton_utils/configs/triton_", "kernels/ops/gemm/configs/")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL", help="wheels; by default they are downloaded")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where to unpack; by default a temporary folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.into or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for wheel in given.wheels or download(Path(temporary)):
            unpack(wheel, folder)
        compare(folder)


def download(folder: Path) -> list[Path]:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    for version in ("3.11", "3.12"):
        options = [part for name in PLATFORMS for part in ("--platform", name)]
        pip = [*command, "--python-version", version, *options, "--dest", str(folder), *RELEASES]
        if subprocess.run(pip, check=False).returncode == 0:
            return sorted(folder.glob("*.whl"))
    raise SystemExit("the wheels could not be downloaded; give them as arguments")


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel's config files, and the folder whose name states the version."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = PurePosixPath(name)
            is_table = path.suffix == ".json" and any(part in name for part in TABLES)
            is_version = path.name == "METADATA" and path.parent.suffix == ".dist-info"
            if (is_table or is_version) and not path.is_absolute() and ".." not in path.parts:
                archive.extract(name, folder)


def compare(folder: Path) -> None:
    database = folder / "shipped.db"
    projects = [folder / name for name in ("vllm", "sglang") if (folder / name).is_dir()]
    registry("ingest", *projects, db=database)
    print("\nBetween vLLM and SGLang:", flush=True)
    registry("disagreements", "--between", "source", "--kernel", "fused_moe_kernel", "--format", "csv", db=database)
    print("\nBetween the Triton versions that SGLang has files for:", flush=True)
    registry("disagreements", "--between", "triton", "--format", "csv", db=database)


def registry(*words: object, db: Path) -> None:
    """Run a command; its rows go to a file, and what it says is printed."""
    command = [sys.executable, "-m", "tuning_registry", "--db", str(db), *map(str, words)]
    print("$ registry", *words[:5], flush=True)
    with open(os.devnull, "w") as rows:
        done = subprocess.run(command, check=False, stdout=rows, stderr=subprocess.PIPE, text=True)
    print(done.stderr, end="", flush=True)
    if done.returncode:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
