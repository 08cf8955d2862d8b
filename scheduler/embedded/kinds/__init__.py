"""The kinds that the embedded API server serves: defaults, validation and sub-resources; `catalog` lists them."""
