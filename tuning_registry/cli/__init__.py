"""The `registry` command. Each command parses its options, calls one operation and prints the result.

`app` lists the panels of the help; each panel's commands are in the file of that name. Operations are imported inside the
commands: they load SQLAlchemy, and `registry --help` need not wait for that.
"""
