"""The synchronous, deterministic machine: inputs in, decisions out.

A pod's way: `machine` takes an input, `observation` files it in `state`, `queue` says whose turn it is,
`scheduling_cycle` (for a group `group_cycles`) looks for a node with `trying`, and `binding` sees it to its node
through `writes`. When nothing fits, `preempting` makes room and `reports` says why.

The folders, lowest first; a module imports from its own folder and from those above it in this list:

  ground      inputs, outbox, timers, settings, versions, indexes, change_log: what every part takes
  counting    pods counted by label and place, for affinity and spreading
  state       what is known (`store`), what is held and not yet written (overlays), what a question supposes
  queue       which pod is next
  trying      which node fits: asking all nodes, remembering verdicts, dry runs, places for a group
  reports     what people read: conditions, causes, troubles
  writes      one object's write, until its outcome is known
  binding     a pod from Reserve to bound, and the way back
  preempting  whose pods make room, and until when

At the top: machine, observation, scheduling_cycle, group_cycles, invariants.
"""
