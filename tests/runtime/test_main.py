"""`python -m tuning_registry.runtime`: scripts and modules that are run under a policy."""

from pathlib import Path

import pytest

from tests.runtime.test_process import python


@pytest.mark.parametrize("given", [["--", "a", "--", "b"], ["a", "--"], ["--"], []])
def test_the_command_leaves_the_scripts_own_arguments_alone(given: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import os, sys; os.chdir('/'); print(sys.argv[1:], os.path.exists(__file__))")
    ended = python("-m", "tuning_registry.runtime", "--mode", "auto", "job.py", *given, cwd=tmp_path)
    assert ended.stdout == f"{given} True\n"
    assert ended.stdout == python("job.py", *given, cwd=tmp_path).stdout


@pytest.mark.parametrize("module", ["builtins", ".pack", "sys"])
def test_a_module_without_code_is_wrong_usage(module: str, tmp_path: Path) -> None:
    ended = python("-m", "tuning_registry.runtime", "--mode", "auto", "-m", module, cwd=tmp_path, check=False)
    (error,) = [line for line in ended.stderr.splitlines() if not line.startswith("tuning_registry: ")]
    assert (ended.returncode, error) == (2, f"python -m tuning_registry.runtime: no module named {module}")
