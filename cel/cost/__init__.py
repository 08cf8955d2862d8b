"""What an expression can cost at most, before it runs, as the API server estimates it."""
