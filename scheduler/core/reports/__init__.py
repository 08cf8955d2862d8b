"""What people read: conditions, events, log lines.

pod_conditions and allowances (how often), causes (what keeps a pod out), troubles (what fails),
unallocated_claims, repartitioned_pools.
"""
