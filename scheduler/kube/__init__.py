"""The shell: watches, api_requests, clock. The only place that talks to an API server."""
