"""Pure functions: the vote, evidence from timings, overrides, outliers, near keys, table differences."""
