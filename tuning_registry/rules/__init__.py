"""The rules as pure functions: the vote, evidence from timings, outliers, near keys, differences of tables."""
