"""Kubernetes objects as the scheduler reads them: frozen, decoded once."""
