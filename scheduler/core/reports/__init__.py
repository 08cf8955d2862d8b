"""What people read: conditions, events, log lines.

pod_conditions and allowances (how often), group_conditions, causes over cause_search, two_changes, equal_answers,
group_causes and room_causes (what keeps a pod out), troubles (what fails).
"""
