"""The search for devices of one node.

constraints, counters, shares; problem; stages, picked; matching, bounds, counter_bounds, share_bounds (what cuts);
search_state, choices, search.
"""
