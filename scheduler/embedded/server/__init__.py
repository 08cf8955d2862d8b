"""The API server of the embedded cluster: HTTP, verbs, watches and what is stored, for whatever kinds it is given."""
