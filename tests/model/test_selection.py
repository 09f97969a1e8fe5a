"""The filters of a query: one spelling, checked when they are made."""

from __future__ import annotations

import pytest

from tuning_registry.errors import UsageError
from tuning_registry.model.selection import Selection, parse_packages


def test_every_accepted_spelling_gives_the_same_selection() -> None:
    spelt = Selection(arch="SM_90", packages={"Mamba_SSM": "2.2.4"})
    assert spelt == Selection(arch="sm90", packages={"mamba-ssm": "2.2.4"})
    assert (spelt.arch, spelt.packages) == ("sm90", {"mamba-ssm": "2.2.4"})


def test_equal_selections_have_one_hash() -> None:
    pair = {Selection(arch="sm_90", packages={"Fla": "1"}), Selection(arch="sm90", packages={"fla": "1"})}
    assert len(pair) == 1
    assert len({Selection(runs=("a",)), Selection(runs=("b",))}) == 2


def test_a_selection_does_not_follow_the_mapping_it_was_made_of() -> None:
    packages = {"fla": "1"}
    selection = Selection(packages=packages)
    packages["fla"] = "2"
    assert selection.packages == {"fla": "1"}


@pytest.mark.parametrize("filters", [{"arch": ""}, {"kernel": ""}, {"triton": ""}, {"runs": ("",)}])
def test_an_empty_filter_is_refused(filters: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="is empty"):
        Selection(**filters)  # type: ignore[arg-type]


def test_an_empty_source_selects_recordings_without_one() -> None:
    assert Selection(source="").source == ""


def test_a_text_that_no_database_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="--kernel: a NUL character"):
        Selection(kernel="k\0")


@pytest.mark.parametrize("pair", ["fla", "=1", "fla="])
def test_a_package_flag_needs_both_sides(pair: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=VERSION"):
        parse_packages([pair])


def test_a_package_is_named_once() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_packages(["Mamba_SSM=1", "mamba-ssm=2"])
