"""Which node fits.

feasibility (asks all nodes) with signature_record and fact_verdicts (verdicts remembered), alike_nodes and ranking
(which of those that fit); attempt (one pod, up to what is set aside for it); dry_run, dry_run_memory and joint_devices
(without these pods, would it fit), post_filters (what could help a pod that fits nowhere); group_attempt and
group_places (a place for each pod of a group, or room for it), group_topology (the values of
a label that the group may have).
"""
