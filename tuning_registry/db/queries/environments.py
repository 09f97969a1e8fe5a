"""Questions about the software that recordings were made with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import environment_modules, environments


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


def modules_known(environment_ids: Iterable[int]) -> sa.Select[Any]:
    """Which modules have an owner in these environments? Columns: environment_id, module."""
    owner = environment_modules
    return sa.select(owner.c.environment_id, owner.c.module).where(owner.c.environment_id.in_(list(environment_ids)))
