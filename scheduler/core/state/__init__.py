"""What the machine knows of the cluster, and what it holds beside that.

store (everything observed) with storage_objects, pod_selector_objects, budget_index, tainted_slices, node_images,
group_members, running_groups and pod_priorities; claim_overlay and volume_overlay (what is held and not yet written),
reservations (all that is set aside for a pod), nominations, kept_devices, double_allocations; supposition (what a
question supposes); core_view (all of this as plugins see it); ground (what every part is handed).
"""
