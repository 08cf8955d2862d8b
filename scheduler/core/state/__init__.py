"""What the machine knows of the cluster, and what it holds beside that.

store (everything observed) with storage_objects, pod_selector_objects, disruption_budgets, tainted_slices, node_images,
gang_members, running_gangs and pod_priorities; claim_overlay and volume_overlay (what is held and not yet written),
stakes (all that is set aside for a pod), nominations, kept_devices, double_allocations; supposition (what a question
supposes); cluster_view (all of this as plugins see it); ground (what every part is handed).
"""
