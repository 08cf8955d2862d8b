"""A rank for devices and nodes that keeps capacity usable: less of what is free becomes unreachable, less is wasted.

To be read in this order, in which no module imports a later one:

  workload   which shapes of pods come, learnt as they come
  pieces     what a node has left, piece by piece, as far as that workload can tell its pieces apart
  fragment   F: what is free on a node and out of reach for the pods that come
  waste      V: what will stay free on a node although pods keep coming
  ranks      both remembered by state, and the rank of a step from one state to another
  choice     which devices of a node that fits

Nothing here decides whether a pod fits: that is the search's. Pure, and no answer depends on what is remembered.

Source: none upstream; docs/adr/0031-placement.md.
"""
