"""`python -m tuning_registry` is the `registry` command."""

from tuning_registry.cli.app import main

if __name__ == "__main__":
    main()
