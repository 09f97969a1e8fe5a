"""Alembic's entry point: runs migrations on the connection it is given, or on the registry's own URL."""

from alembic import context

from tuning_registry.db.schema import VERSION_TABLE, metadata
from tuning_registry.db.store import Store
from tuning_registry.db.url import resolve_url


def run_on(connection: object) -> None:
    """Run the migrations in one transaction, which the caller commits."""
    context.configure(
        connection=connection,  # type: ignore[arg-type]  # Alembic types it as its own Connection alias
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        compare_server_default=True,
        on_version_apply=context.config.attributes.get("on_version_apply", ()),
        include_name=lambda name, kind, _: kind != "table" or name in metadata.tables,
    )
    context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run_on(given)
elif context.is_offline_mode():
    context.configure(dialect_name="postgresql", version_table=VERSION_TABLE, literal_binds=True)
    context.run_migrations()
else:
    with Store(resolve_url(context.get_x_argument(as_dictionary=True).get("db"))).migrating() as own:
        run_on(own)
