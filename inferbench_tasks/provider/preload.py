"""What each task of ours needs, in a Celery worker's memory before it forks one: importing this module is all of it.

Airflow runs every task in a fork of its worker. What the worker has not imported by then each task imports again: 430
to 890 modules, 1 to 2 s of a core between two stages, beside whatever else is measured on the machine.

No framework is among it (``torch``, ``tensorflow``): they start threads, which don't survive a fork.
"""

from __future__ import annotations

import gc
from importlib import import_module

from inferbench_tasks.pipelines.base import PIPELINES
from inferbench_tasks.quality.measures import MEASURES

#: What reads DAGs and runs a node, and what the stages of serving import when they need it.
MODULES = (
    "inferbench_tasks.provider.loader", "inferbench_tasks.provider.submit.dag", "inferbench_tasks.provider.nightly.dag",
    "inferbench_tasks.provider.operators.stage", "inferbench_tasks.provider.plugin", "inferbench_tasks.running.execute",
    "inferbench_tasks.running.child", "inferbench_tasks.perfdb.store", "inferbench_tasks.perfdb.finalise",
    "inferbench_tasks.artifacts.safe_files", "inferbench_tasks.backends.own_server",
    "inferbench_tasks.clients.kserve_http", "inferbench_tasks.clients.http2", "inferbench_tasks.clients.pool",
    "inferbench_tasks.loadgen.ceiling", "inferbench_tasks.loadgen.outcome", "inferbench_tasks.loadgen.payloads",
    "inferbench_tasks.loadgen.summary", "inferbench_tasks.metrics.derive", "inferbench_tasks.monitors.quiet",
    "inferbench_tasks.monitors.session", "inferbench_tasks.monitors.usage", "inferbench_tasks.stages.neighbours",
    "inferbench_tasks.stages.answers_table", "inferbench_tasks.stages.asked", "inferbench_tasks.stages.evaluated",
    "inferbench_tasks.analysis.report.compose", "inferbench_tasks.analysis.report.finalise",
    "scipy.fft", "scipy.special", "plotly.graph_objects",
)  # fmt: skip

for kind in PIPELINES:
    _ = PIPELINES.load(kind).entries  # imports the modules of its stages
for module in MODULES:
    import_module(module)
for name in MEASURES:
    if MEASURES.origin(name) == "built-in":  # others may import a framework
        MEASURES.load(name)
# What is alive now is for good: a collection in a task would only copy its pages.
gc.collect()
gc.freeze()
