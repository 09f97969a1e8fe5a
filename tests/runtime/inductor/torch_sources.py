"""Reads single files out of the wheels that the package index has, without downloading the wheels."""

# mypy: disable-error-code="import-not-found"
# (torch is not in every environment.)

from __future__ import annotations

import ast
import io
import json
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

INDEX = "https://pypi.org/simple/torch/"
TIMEOUT_S = 60


class RemoteFile(io.RawIOBase):
    """A file behind a URL, read by ranges.

    Args:
        url: The URL.
        size: Size in bytes.
    """

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._position)
        if count <= 0:
            return 0
        last = self._position + count - 1
        request = urllib.request.Request(self._url, headers={"Range": f"bytes={self._position}-{last}"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            if answer.status != 206:
                raise OSError("the package index does not serve ranges")
            data = answer.read()
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def wheels() -> dict[str, tuple[str, int]]:
    """URL and size of the Linux wheel for Python 3.12 of every torch release that the index has.

    Raises:
        OSError: The index cannot be reached.
    """
    request = urllib.request.Request(INDEX, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        files = json.load(answer)["files"]
    return {
        file["filename"].split("-")[1]: (file["url"], file["size"]) for file in files
        if "-cp312-cp312-manylinux" in file["filename"] and file["filename"].endswith("x86_64.whl") and not file.get("yanked")
    }  # fmt: skip


def newest(versions: Any) -> str:
    """The highest version."""
    return str(max(versions, key=lambda version: [int(part) for part in version.split("+")[0].split(".")]))


def sources(wheel: tuple[str, int], modules: set[str]) -> dict[str, str]:
    """The sources of modules below `torch`, by name ("_inductor.codecache"); about five megabytes are read.

    Raises:
        OSError: The wheel cannot be read.
    """
    files = {module: f"torch/{module.replace('.', '/')}.py" for module in modules}
    with zipfile.ZipFile(io.BufferedReader(RemoteFile(*wheel), 1 << 19)) as archive:
        return {module: archive.read(file).decode() for module, file in files.items()}


def installed_sources(modules: set[str]) -> dict[str, str]:
    """The same of the torch that is installed here."""
    import torch

    folder = Path(torch.__file__).parent
    return {module: (folder / f"{module.replace('.', '/')}.py").read_text() for module in modules}


def function(source: str, owner: str, name: str) -> ast.FunctionDef | None:
    """A function of a class in a source."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == owner:
            return next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == name), None)
    return None


def parameters(found: ast.FunctionDef) -> list[str]:
    """The positional parameters of a function, without `self` or `cls`."""
    names = [argument.arg for argument in (*found.args.posonlyargs, *found.args.args)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def calls(source: str, name: str) -> list[ast.Call]:
    """The calls of a function or method of this name in a source."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [call for call in found if name == getattr(call.func, "attr", getattr(call.func, "id", None))]
