"""What others call: the inventory and the questions asked of it.

paused_searches, remembered_plans, offers, inventory; prefilter (nodes not worth asking about); question, result,
allocate; funnel, constraint_room, together, explanation; after_release, class_usage.
"""
