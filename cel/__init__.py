"""Kubernetes CEL for devices: compile a selector once, evaluate it for next to nothing."""
