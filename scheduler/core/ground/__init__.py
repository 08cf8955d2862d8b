"""What every part of the machine takes.

inputs (what comes in; framework.decisions is what goes out), outbox, core_settings, timers; versions and newest_objects
(the newest revision wins), change_log (which nodes to look at again), fair_places (who may have one more request under
way); indexes (members by what they are found by).
"""
