"""The synchronous, deterministic machine: inputs in, decisions out."""
