"""The views of the page, one per file: each is a function from the report to its section, or None if there is nothing."""
