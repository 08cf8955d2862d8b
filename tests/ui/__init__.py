"""The page: its answers over HTTP, and in a browser."""
