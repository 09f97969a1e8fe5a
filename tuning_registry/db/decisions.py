"""Every SELECT over what people decided and what was exported, each named after the question it answers."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import configs, entries, exports, observations, override_events, timings, votes


def override_history() -> sa.Select[Any]:
    """What has been pinned, banned and lifted, in order?"""
    return (
        sa.select(
            *(column for column in override_events.c if column.name != "config_id"), configs.c.text.label("config")
        )
        .join(configs, configs.c.id == override_events.c.config_id)
        .order_by(override_events.c.id)
    )


def kernels_recorded(arch: str) -> sa.Select[Any]:
    """Which kernels does anything say something about on this architecture?"""
    return sa.select(entries.c.kernel).where(entries.c.arch == arch).distinct().order_by(entries.c.kernel)


def configs_recorded(arch: str, kernel: str, lookup_key: str | None) -> sa.Select[Any]:
    """Which configs has anybody chosen, timed or observed for this kernel, on this key if one is given?"""
    chosen = sa.select(entries.c.id).where(entries.c.arch == arch, entries.c.kernel == kernel)
    if lookup_key is not None:
        chosen = chosen.where(entries.c.lookup_key == lookup_key)
    seen = sa.union(*(sa.select(table.c.config_id).where(table.c.entry_id.in_(chosen))
                      for table in (votes, timings, observations)))  # fmt: skip
    return sa.select(configs.c.text).where(configs.c.id.in_(seen)).order_by(configs.c.text)


def exports_made(digest: str | None, arch: str | None) -> sa.Select[Any]:
    """Which tables were written, newest first; of this digest (or its beginning) and architecture?"""
    query = sa.select(exports).order_by(exports.c.id.desc())
    if digest is not None:
        query = query.where(sa.func.substr(exports.c.table_digest, 1, len(digest)) == digest)
    return query if arch is None else query.where(exports.c.arch == arch)
