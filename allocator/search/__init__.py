"""The search for devices of one node.

constraints, counters, shares; problem; matching, bounds, counter_bounds, share_bounds (what cuts); census, picked,
search_state, choices, search.
"""
