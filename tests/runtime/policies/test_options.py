"""Policy options: one per declared field, the same in --help, in the environment and in the documentation."""

import argparse
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from tuning_registry.errors import FormatError
from tuning_registry.runtime.policies.fields import declaration_of
from tuning_registry.runtime.policies.options import (
    DECLARATIONS,
    add_policy_options,
    flag_of,
    option_fields,
    option_variables,
    policy_from_environment,
    policy_from_options,
    variable_of,
)
from tuning_registry.runtime.policies.policy import AutotunePolicy

DOCUMENT = Path(__file__).parents[3] / "docs" / "runtime.md"


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_policy_options(parser)
    return parser.parse_args(arguments)


def table_of_fields() -> str:
    """The table of policy fields in docs/runtime.md."""
    rows = ["| field | meaning | default |", "| --- | --- | --- |"]
    for field in fields(AutotunePolicy):
        default = field.default if field.default is not MISSING else None
        shown = "" if default in (None, ()) else f"`{default}`"
        rows.append(f"| `{field.name}` | {declaration_of(field).help} | {shown} |")
    return "\n".join(rows) + "\n"


def test_the_documentation_lists_the_fields_as_they_are_declared() -> None:
    assert table_of_fields() in DOCUMENT.read_text(), "paste this into docs/runtime.md:\n" + table_of_fields()


def test_every_field_is_an_option_with_its_help() -> None:
    parser = argparse.ArgumentParser(prog="p")
    add_policy_options(parser)
    help_text = " ".join(parser.format_help().split())
    assert list(DECLARATIONS) == [field.name for field in fields(AutotunePolicy)]
    missing = [name for name, declared in DECLARATIONS.items()
               if flag_of(name) not in help_text or " ".join(declared.help.split()) not in help_text]  # fmt: skip
    assert missing == []


TEXTS: dict[str, str] = {
    "mode": "pinned", "modules": "a,b", "table_path": "/x", "record_path": "/r", "on_miss": "error",
    "block_sizes": "BLOCK_M=64", "config_invariant": "a.b", "verify_every": "10", "run": "job", "source": "text",
    "arch": "sm90", "expect_digest": "0123456789abcdef", "module_names": "scan_*=pkg.scan",
    "split": "node", "split_repeats": "1",
    "audit": "seeded", "audit_memory": "1024", "report_html": "job.html", "compile_ahead": "0", "torch_compile": "0",
}  # fmt: skip


@pytest.mark.parametrize("name", list(DECLARATIONS))
def test_an_option_and_a_variable_state_the_same(name: str) -> None:
    switch = DECLARATIONS[name].is_switch
    given = parsed(flag_of(name)) if switch else parsed(flag_of(name), TEXTS[name])
    from_options = AutotunePolicy.from_mapping(option_fields(given))
    assert from_options == policy_from_environment({variable_of(name): "1" if switch else TEXTS[name]})
    assert from_options != AutotunePolicy()
    assert policy_from_environment(option_variables(given, from_options)) == from_options


def test_options_take_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNING_REGISTRY_RUN", "from the environment")
    monkeypatch.setenv("TUNING_REGISTRY_SOURCE", "kept")
    policy = policy_from_options(parsed("--run", "given"))
    assert (policy.run, policy.source) == ("given", "kept")


@pytest.mark.parametrize(
    ("arguments", "place"), [(["--verify-every", "often"], "--verify-every"), (["--arch", "H100"], "--arch")]
)
def test_a_wrong_option_is_named(arguments: Any, place: str) -> None:
    with pytest.raises(FormatError) as caught:
        policy_from_options(parsed(*arguments))
    assert caught.value.path[0] == place


def test_a_wrong_variable_is_named_next_to_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNING_REGISTRY_ARCH", "H100")
    with pytest.raises(FormatError, match="TUNING_REGISTRY_ARCH"):
        policy_from_options(parsed("--run", "job"))
