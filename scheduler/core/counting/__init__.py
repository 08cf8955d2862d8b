"""Running pods counted by what others ask about them: for affinity and topology spreading.

pod_counts (counts by place), question_counts and term_counts (two kinds of questions), matching_namespaces.
"""
