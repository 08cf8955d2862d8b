"""The chaos run: pods, claims and volumes come and go while all around the schedulers breaks.

`schedule` draws what breaks and when, from a seed; `faults` does it; `workload` has the pods; `ledger` sees every
change of every claim; `judging` says what must not be; `run` puts them together. `tests/integration/test_chaos.py` is
the short form.
"""
