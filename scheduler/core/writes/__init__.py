"""One object's write, until its outcome is known.

pending_writes (the driver), and the writes that it drives: claim_writes, pod_writes, volume_writes, pod_removals;
taking_back (reservations and nominations); writers (all of them).
"""
