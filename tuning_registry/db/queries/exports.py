"""Questions about the log of exported tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import exports


def last_time() -> sa.Select[Any]:
    """When was a table exported last? Null if none was."""
    return sa.select(sa.func.max(exports.c.exported_at))


def made(digest: str | None, arch: str | None) -> sa.Select[Any]:
    """Which tables were exported, newest first? Filters by the beginning of either digest, and by architecture."""
    query = sa.select(exports).order_by(exports.c.id.desc())
    if digest is not None:
        begins = (sa.func.substr(column, 1, len(digest)) == digest for column in
                  (exports.c.table_digest, exports.c.selection_digest))  # fmt: skip
        query = query.where(sa.or_(*begins))
    return query if arch is None else query.where(exports.c.arch == arch)
