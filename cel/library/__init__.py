"""CEL's values and functions, and what each of them costs when it runs. Knows no expressions."""
