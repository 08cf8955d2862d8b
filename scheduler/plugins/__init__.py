"""One module per scheduler plugin, under upstream's names."""
