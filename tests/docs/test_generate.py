"""The generated parts of the reference are complete."""

from __future__ import annotations

import dataclasses
import re

import pytest
from typer.main import get_command

import tuning_registry
import tuning_registry.errors
import tuning_registry.runtime
from docs._build.api import describe_module
from docs._build.generate import commands, errors, fill, paper, settings, walk_commands
from tests.conftest import ROOT
from tuning_registry.cli.app import app
from tuning_registry.runtime import AutotunePolicy


def test_every_command_and_option_is_in_the_reference() -> None:
    shown = commands()
    found = list(walk_commands("registry", get_command(app)))
    assert len(found) > 25
    for path, command in found:
        section = shown.partition(f"## `{path}`\n")[2].partition("\n## ")[0]
        assert section, path
        for parameter in command.params:
            name = parameter.opts[0] if parameter.param_type_name == "option" else (parameter.metavar or "").upper()
            assert name in section, (path, name)


def test_every_policy_field_is_an_option_and_a_variable() -> None:
    shown = settings()
    for field in dataclasses.fields(AutotunePolicy):
        assert f"`--{field.name.replace('_', '-')}" in shown
        assert f"`TUNING_REGISTRY_{field.name.upper()}`" in shown


def test_every_error_is_listed() -> None:
    shown = errors()
    for name, value in vars(tuning_registry.errors).items():
        if isinstance(value, type) and issubclass(value, tuning_registry.RegistryError):
            assert f"| `{name}` | " in shown


@pytest.mark.parametrize("module", [tuning_registry, tuning_registry.runtime])
def test_every_public_name_is_documented(module: object) -> None:
    name = module.__name__  # type: ignore[attr-defined]  # parametrized as a plain object
    shown = describe_module(name)
    for public in module.__all__:  # type: ignore[attr-defined]  # likewise
        value = getattr(module, public)
        is_error = isinstance(value, type) and issubclass(value, Exception)
        if callable(value) and not is_error:
            assert re.search(
                rf"^### `{re.escape(name)}\.{public}`\n\n(```text\n.+?```\n\n)?\S", shown, re.MULTILINE | re.DOTALL
            ), public
    assert "ForwardRef" not in shown
    assert " object at 0x" not in shown


def test_docstring_sections_become_lists() -> None:
    shown = describe_module("tuning_registry")
    assert re.search(r"^\*\*Raises\*\*\n\n- `\w+`: ", shown, re.MULTILINE)
    assert not re.search(r"^(Args|Returns|Raises):$", shown, re.MULTILINE)


def test_types_that_are_returned_are_described_with_their_methods() -> None:
    shown = describe_module("tuning_registry")
    assert "#### `Winner`" in shown
    assert "#### `Filters`" in shown
    assert re.search(
        r"^#### `Registry.winners`\n\n```text\nwinners\(\n    \*,\n    policy: .*\n    runs: ", shown, re.MULTILINE
    )


def test_a_part_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        fill("<!-- generated: nonsense -->")
    assert fill("a <!-- comment --> b") == "a <!-- comment --> b"


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "benchmarks/README.md", "examples/h200/README.md"])
def test_links_of_papers_are_made_relative_to_their_page(name: str) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", paper(name)):
        assert (ROOT / "docs" / "project" / target).resolve().exists(), target
