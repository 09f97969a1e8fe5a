"""What decided the configs of this process, as a flat dict for an experiment tracker or a checkpoint."""

from __future__ import annotations

import sys

from tuning_registry.formats.loader import installed_triton
from tuning_registry.runtime.control import active_session


def provenance() -> dict[str, str | int]:
    """What decided the configs of this process so far: flat, with strings and integers only.

    Returns:
        `tuning_registry.version`, `.triton`, `.mode` (`none` without a policy), `.choice_digest`, `.keys` (keys with a
        choice), `.hits` (keys that an entry of a table decided), `.misses`, `.nearest` (those of the misses that the
        recorded keys around them decided), and if tables were loaded `.table_file`,
        `.table_digest` and `.selection_digest`. A process with devices of several architectures has several tables;
        their values are joined by a comma, in the order of architectures.
    """
    session = active_session()
    found: dict[str, str | int] = {"version": _version(), "triton": installed_triton(), "mode": "none"}
    if session is not None:
        choices = session.choices.latest()
        found |= {
            "mode": str(session.policy.mode),
            "choice_digest": session.choices.digest(),
            "keys": len(choices),
            "hits": sum(choice.source == "table" for choice in choices),
            "misses": len(session.misses.all()),
            "nearest": sum(miss.source == "nearest" for miss in session.misses.all()),
        }
        tables = session.tables.loaded()
        for place, name in enumerate(("table_file", "table_digest", "selection_digest"), 1):
            if tables:
                found[name] = ",".join(table[place] for table in tables)
    return {f"tuning_registry.{name}": value for name, value in found.items()}


def _version() -> str:
    # Not an import: it would look like one of the database half, which the package imports when it is asked for.
    return str(getattr(sys.modules["tuning_registry"], "__version__", ""))
