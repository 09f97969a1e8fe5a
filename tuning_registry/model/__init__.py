"""The values of the domain: configs, names, records, filters and results. Standard library only."""
