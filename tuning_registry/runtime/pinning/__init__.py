"""Which candidate a pinned kernel launches."""
