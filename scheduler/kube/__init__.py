"""The shell: watches, requests, clock. The only place that talks to an API server."""
