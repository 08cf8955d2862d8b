"""From checked expression to answer: generated Python, and the exact walker behind it."""
