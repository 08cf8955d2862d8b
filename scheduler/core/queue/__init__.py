"""Which pod is next.

scheduling_queue (the rules) over queued_pod, active_pods, waiting_pods, gated_pods and backoff; turns and slow_queue
(whose turn), helpful_changes (which change wakes whom), tallies (what metrics count).
"""
