"""What the API server refuses, and in which words: the rules of resource.k8s.io/v1 for objects as decoded from JSON.

An object in, field errors out, in the order of the real validation. One function for each of the Go functions it
mirrors, so that a new release is read against them. The limits are in `scheduler.model.api_rules`, the fields of the
kinds in a table (`api_fields`). The embedded server refuses by these rules, and lint asks them about what it finds no
fault with itself.
"""
