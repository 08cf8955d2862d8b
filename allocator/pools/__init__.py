"""What nodes have: pools as each node sees them, and what of it is in use.

node_match, in_use (the ledger), supposed_use, attribute_index, compatibility (groups of partitions), pool_slices,
pools, node_use, outcome, node_pools (all of a node in a row); overdrawn and vanished look at what is allocated
already, faults at pools that are published wrong.
"""
