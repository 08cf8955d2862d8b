"""Whose pods make room for another, and until when.

preemptions over preemption_records; preemption_recovery (after a restart), preemption_texts.
"""
