"""The page: a cluster's devices, who has them, who waits and why, in a browser; it reads and never writes.

To be read in this order: responses (answers as the page draws them), pod_timeline (a pod's way in time), data_source (a
cluster, or files, and when they are asked), first_looks (the list of pods, corrected), what_if (objects altered and
played), server (HTTP); cause_events (events that say why, where `observe` is asked for them: all that is ever written).
The front end is `static/`: native ES modules, without a build; `static/vendor/` is other people's, with its licences.
"""
