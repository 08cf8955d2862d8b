"""One module per command; presentation only."""
