"""Tables from votes: export, comparison, checks, and the log of exports."""
