"""What people read: conditions, events, log lines.

pod_conditions and allowances (how often), group_conditions, causes and cause_search (what keeps a pod out), troubles
(what fails).
"""
