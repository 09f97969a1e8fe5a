"""The distributions that own the kernels' modules, as installed here."""

from pathlib import Path
from typing import Any

from tuning_registry.runtime.recording.owners import Owners


def package(folder: Path, name: str, version: str | None, owns: str, record: bytes = b"") -> None:
    info = folder / f"{name}-{version or 0}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\n" + (f"Version: {version}\n" if version else "")
    )
    (info / "RECORD").write_bytes(record or f"{owns}/__init__.py,,\n".encode())


def test_a_broken_package_costs_only_its_own_version(tmp_path: Path, monkeypatch: Any) -> None:
    package(tmp_path, "broken", None, "broke")
    package(tmp_path, "garbled", "1.0", "garbled", b"\xff\xfe/x.py,,\n")
    package(tmp_path, "whole", "1.5", "whole")
    monkeypatch.syspath_prepend(tmp_path)
    owners = Owners()
    kernels = ["broke.kernel", "garbled.kernel", "whole.kernel"]
    owners.find(kernels)
    assert owners.known(kernels) == ({"whole": "1.5"}, {"whole": "whole"})
    assert not owners.miss(kernels)  # and it is not looked for again


def test_of_two_installed_versions_the_one_that_is_imported_counts(tmp_path: Path, monkeypatch: Any) -> None:
    package(tmp_path / "system", "pkg-x", "1.0", "pkgx")
    package(tmp_path / "user", "pkg_x", "2.0", "pkgx")
    for folder in ("system", "user"):
        monkeypatch.syspath_prepend(tmp_path / folder)
    owners = Owners()
    owners.find(["pkgx.kernel"])
    assert owners.known(["pkgx.kernel"])[0].popitem()[1] == "2.0"
