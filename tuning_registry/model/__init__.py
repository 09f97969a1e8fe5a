"""What things are: configs, names, records and the filters over them. Standard library only."""
