"""Questions about the software that recordings were made with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import entries, environment_modules, environments
from tuning_registry.model.selection import MISSING, Selection


def group_columns(owner: sa.FromClause) -> list[sa.ColumnElement[str]]:
    """The version group, for a statement that joins `environments` and `owner`."""
    return [
        environments.c.triton.label("triton"),
        sa.func.coalesce(owner.c.package, "").label("package"),
        sa.func.coalesce(owner.c.version, "").label("version"),
    ]


def version_groups() -> sa.Select[Any]:
    """Which versions does each environment have, by the module that a distribution owns there?

    Columns: environment id, triton, module, package, version; the last three are null if nothing is owned.
    """
    owner = environment_modules
    return sa.select(
        environments.c.id, environments.c.triton, owner.c.module, owner.c.package, owner.c.version
    ).outerjoin_from(environments, owner, owner.c.environment_id == environments.c.id)


def packages() -> sa.Select[Any]:
    """Which distributions own the module of a kernel, according to any recording?"""
    return sa.select(environment_modules.c.package).distinct().order_by(environment_modules.c.package)


def modules_of(package: str) -> sa.Select[Any]:
    """Which top-level modules does a distribution own, according to any recording?"""
    return sa.select(environment_modules.c.module).where(environment_modules.c.package == package)


def of_packages(selection: Selection) -> list[sa.ColumnElement[bool]]:
    """Conditions that keep, of the kernels that a package owns, only votes recorded with its version.

    They leave other kernels alone. For a statement that joins `entries` and `environment_modules`.
    """
    owner = environment_modules
    return [
        entries.c.module.not_in(modules_of(name))
        | (sa.func.coalesce(owner.c.package, name).in_([name, ""]))
        & (sa.func.coalesce(owner.c.version, "") == version_asked(version))
        for name, version in selection.packages.items()
    ]


def version_asked(asked: str) -> str:
    """The stored form of a version filter."""
    return "" if asked == MISSING else asked


def modules_known(environment_ids: Iterable[int]) -> sa.Select[Any]:
    """Which modules have an owner in these environments? Columns: environment_id, module."""
    owner = environment_modules
    return sa.select(owner.c.environment_id, owner.c.module).where(owner.c.environment_id.in_(list(environment_ids)))
