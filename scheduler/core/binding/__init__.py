"""A pod's binding, from Reserve to bound, and the way back.

binding_cycle (the stages) over binding, binding_waits and binding_writes; aftermath (what follows), unreserving and
withdrawals (giving up), device_conflicts (another scheduler was first).
"""
