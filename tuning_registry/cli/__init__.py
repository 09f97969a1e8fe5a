"""The `registry` command. Each file parses its commands' options, calls one operation, prints; no other package does.

Operations are imported inside the commands: they load SQLAlchemy, which `registry --help` need not wait for.
"""
