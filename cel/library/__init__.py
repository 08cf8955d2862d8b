"""CEL's values and functions, and what each of them spends. Knows no expressions."""
