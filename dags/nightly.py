"""One DAG per YAML file of the nightly folder, on INFERBENCH_NIGHTLY_CRON; Airflow reads this file again and again."""

from inferbench_tasks.provider.nightly.dag import load_nightly

globals().update(load_nightly())
