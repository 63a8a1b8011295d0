"""``kind: bricks``: many models' latency from benchmarks of their unique bricks, measured once and kept.

``job.py`` is what a submission may say, ``members.py`` its jobs, ``stages/`` what they go through, ``store.py`` where
bricks' times lie in PerfDB, ``report/`` what comes out.
"""
