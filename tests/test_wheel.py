"""The installed package: built, installed and run outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.conftest import H200, ROOT

LAYERS = ["direct", "from the sdist"]


def build(folder: Path, *options: str) -> Path:
    """Build with `python -m build`; the wheel."""
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(folder), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module", params=LAYERS)
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout, and by way of the sdist."""
    return build(tmp_path_factory.mktemp("dist"), *(["--wheel"] if request.param == "direct" else []))


class Installed:
    """The wheel in a separate environment, run from the root folder."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=False)
        self.python = folder / "venv" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--no-deps", "--no-index"]
        subprocess.run([*pip, "--quiet", str(wheel)], check=True, capture_output=True, timeout=120)
        (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        # Third-party packages from here. What a .pth file adds is not searched for further .pth files, so
        # the checkout that is installed here as editable stays out of sight.
        (site / "third-party.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder / "data")}
        return subprocess.run(
            [*map(str, command)], capture_output=True, text=True, check=False, timeout=60, cwd="/", env=environment
        )

    def registry(self, *words: object) -> subprocess.CompletedProcess[str]:
        return self.run(self.python.with_name("registry"), *words)

    def execute(self, code: str) -> str:
        result = self.run(self.python, "-c", code)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


def tracked(*folders: str) -> set[str]:
    found = (file for folder in folders for file in (ROOT / folder).rglob("*"))
    return {str(file.relative_to(ROOT)) for file in found if file.is_file() and file.suffix != ".pyc"}


def test_the_wheel_holds_code_tables_and_migrations(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    migrations = {f"tuning_registry/{name}" for name in tracked("migrations")}
    assert names == tracked("tuning_registry") | migrations
    assert "tuning_registry/migrations/versions/0001_first_schema.py" in names
    assert "tuning_registry/tables/sm90.json" in names


def test_it_is_the_installed_package_that_runs(installed: Installed) -> None:
    place = installed.execute("import tuning_registry; print(tuning_registry.__file__)")
    assert Path(place).is_relative_to(installed.folder)


def test_the_main_job(installed: Installed, tmp_path: Path) -> None:
    database, table = tmp_path / "registry.db", tmp_path / "sm90.json"
    for words in (
        ("db", "upgrade"),
        ("ingest", H200, "--run", "demo", "--triton", "3.6.0"),
        ("db", "check"),
        ("export", "--arch", "sm90", "-o", table),
        ("report", "--html", tmp_path / "report.html"),
    ):
        result = installed.registry("--db", database, *words)
        assert result.returncode == 0, result.stderr
    loaded = f"import tuning_registry; print(len(tuning_registry.load('sm90', {str(table)!r}).kernels))"
    packaged = "import tuning_registry; print(len(tuning_registry.load('sm90').kernels))"
    assert int(installed.execute(loaded)) == int(installed.execute(packaged)) > 0


def test_the_database_is_in_the_users_folder(installed: Installed) -> None:
    result = installed.registry("db", "path")
    assert result.stdout == f"sqlite:///{installed.folder}/data/tuning-registry/registry.db\n"
