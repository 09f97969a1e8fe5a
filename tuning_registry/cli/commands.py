"""How commands are built: from a function, its filters and the database; and how their help looks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from tuning_registry.cli.console import print_message
from tuning_registry.cli.options import FILTERS, Db
from tuning_registry.errors import DatabaseError, UsageError, printable
from tuning_registry.model.selection import Selection, parse_packages, parse_ranks

if TYPE_CHECKING:
    from tuning_registry.db.store import Store

Function = Callable[..., None]


class Command(TyperCommand):
    """A command whose help names no Python types."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands, likewise."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))


def _without_types(params: list[Any]) -> list[Any]:
    """Leave out Typer's names of Python types: a flag is not followed by `<bool>`, nor an argument by `<path>`."""
    for param in params:
        if isinstance(param, TyperArgument):
            param.display_type_rich = _no_type  # type: ignore[method-assign]
        elif getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


def _no_type(ctx: Any) -> None:
    """Take the place of `TyperArgument.display_type_rich`."""


def examples_text(examples: Sequence[str]) -> str | None:
    """The end of a command's help."""
    lines = [f"$ {example}".replace("[", r"\[") for example in examples]  # brackets are markup
    return "\n".join(["Examples:", *lines]) if lines else None


@dataclass(frozen=True, slots=True)
class Target:
    """The database and the votes that a command's options name.

    Attributes:
        db: Value of `--db`, given before or after the command; None for the default.
        selection: The filters.
    """

    db: str | None
    selection: Selection = field(default_factory=Selection)

    def open(self, *, says_pending: bool = True) -> Store:
        """Print which database is used, and return its store.

        Args:
            says_pending: Also print how many hand-ins the answers of this command do not count.
        """
        from tuning_registry.db.dialects import network_file_system
        from tuning_registry.db.store import Store
        from tuning_registry.db.url import is_in_memory, resolve_url, shown_url, sqlite_file

        url = resolve_url(self.db)
        if is_in_memory(url):
            raise UsageError(
                "an in-memory database would be lost when this command ends; name a file, or use registry merge or "
                "registry report, which need no database"
            )
        print_message(f"database: {printable(shown_url(url))}")
        file = sqlite_file(url)
        kind = network_file_system(file.parent) if file is not None else ""
        if kind:
            print_message(
                f"warning: this SQLite file is on {kind}, where locking is unreliable. Let only one process write to it, "
                "or use Postgres"
            )
        store = Store(url)
        if says_pending:
            _say_pending(store)
        return store


def _say_pending(store: Store) -> None:
    """Print how many hand-ins are not counted. If that cannot be read, the command itself says why."""
    from tuning_registry.operations.ingest.hand_ins import count_hand_ins, note_of

    try:
        note = note_of(count_hand_ins(store))
    except DatabaseError:
        return
    if note:
        print_message(f"note: {note}")


def database_of(ctx: typer.Context, db: str | None) -> str | None:
    """The `--db` given to a command, else the one given before it."""
    chosen: str | None = db if db is not None else ctx.find_root().obj
    return chosen


def command(
    *filters: str, required: Sequence[str] = (), examples: Sequence[str] = ()
) -> Callable[[Function], Function]:
    """Give a function that takes a `target` the options that name it: these filters, and `--db`.

    Args:
        filters: Names of the `FILTERS` that the command takes.
        required: Those that have no default.
        examples: Complete command lines for the end of the help.
    """

    def decorate(function: Function) -> Function:
        own = inspect.signature(function, eval_str=True).parameters.values()
        takes_target = any(parameter.name == "target" for parameter in own)

        def run(ctx: typer.Context, **given: Any) -> None:
            if takes_target:
                chosen = {name: given.pop(name) for name in filters}
                given["target"] = Target(database_of(ctx, given.pop("db")), _selection(chosen))
            function(**given)

        parameters = [_keyword("ctx", typer.Context)]
        parameters += [_filter(name, is_required=name in required) for name in filters]
        parameters += [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own if p.name != "target"]
        parameters += [_keyword("db", Db, None)] if takes_target else []
        return _with_parameters(run, function, parameters, examples)

    return decorate


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _filter(name: str, *, is_required: bool) -> inspect.Parameter:
    kind, option = FILTERS[name]
    return _keyword(
        name, Annotated[kind, option], inspect.Parameter.empty if is_required else False if kind is bool else None
    )


def _with_parameters(
    run: Function, function: Function, parameters: Iterable[inspect.Parameter], examples: Sequence[str]
) -> Function:
    """Make Typer see these parameters: it reads a signature and annotations."""
    signature = inspect.Signature(list(parameters))
    vars(run).update(__signature__=signature, examples=tuple(examples))
    run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
    return run


def _selection(given: Mapping[str, Any]) -> Selection:
    return Selection(
        arch=given.get("arch"),
        kernel=given.get("kernel"),
        runs=tuple(given.get("run") or ()),
        ranks=parse_ranks(given.get("rank") or ()),
        source=given.get("source"),
        triton=given.get("triton"),
        packages=parse_packages(given.get("package") or []),
        device=given.get("device"),
        curated=bool(given.get("curated")),
    )


def nothing_matches(store: Store, kernel: str | None, what: str = "votes") -> str:
    from tuning_registry.operations.reports.status import what_there_is

    return printable(f"no {what} match. Recorded {what_there_is(store, kernel)}")
