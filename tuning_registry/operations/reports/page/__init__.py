"""What a page about a selection shows: `report` has the values, and `gather` reads them."""
