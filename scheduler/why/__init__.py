"""Why a pod waits, as values: reasons and fixes, the table of their kinds, and the place that makes sentences of them.

Bottom to top: `say` (templates, names, plurals, what a reader may see), `kinds` (one row a kind of reason or fix, as
`reasons.txt` and `fixes.txt` have them), `reasons` (the values). Who finds reasons: the plugins. Who weighs them:
`core.reports.cause_search`.
"""
