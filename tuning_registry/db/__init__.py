"""The database: schema, statements, the store that executes them, migrations."""
