"""The synchronous, deterministic machine: inputs in, decisions out.

In reading order:
  what goes in and out      inputs; framework.decisions
  the machine               machine, observation, aftermath; ground: what every part takes
  what is known             store, newest_objects, versions, tainted_slices; claim_overlay: devices in use; cluster_view
  which pod is next         scheduling_queue, queued_pod, active_pods, turns, search_lanes, backoff, waiting_pods,
                            helpful_changes, tallies; fair_places: who may have one more request under way
  which node it gets        scheduling_cycle, feasibility, shape_record, change_log
  how it is bound           binding_cycle, binding, binding_waits, binding_writes
  writes and their answers  outbox, claim_writes, pod_writes
  giving up                 unreserving, taking_back, withdrawals
  other schedulers          double_allocations, device_conflicts
  what people read          pod_conditions, troubles, problems, unallocated_claims, repartitioned_pools
  time, numbers, checks     timers, settings, invariants, recording
"""
