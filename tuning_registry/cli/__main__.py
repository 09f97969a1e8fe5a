"""`python -m tuning_registry.cli`: the same as `registry`."""

from tuning_registry.cli.app import main

main()
