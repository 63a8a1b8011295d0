"""One DAG per YAML file of the nightly folder, on INFERBENCH_NIGHTLY_CRON, and one that keeps bricks' times current;
Airflow reads this file again and again."""

from inferbench_tasks.provider.nightly.bricks import load_bricks_night
from inferbench_tasks.provider.nightly.dag import load_nightly

globals().update(load_nightly())
globals().update(load_bricks_night())
