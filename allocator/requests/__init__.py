"""What a claim asks for, as a plan of slots, and which devices a slot accepts.

slot_records, selectors (CEL, answered once; derived attributes, too), subterms (which part of one says no), capacity,
requests (claims and classes to a plan); device_taints, slot_masks.
"""
