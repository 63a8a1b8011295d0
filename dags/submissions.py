"""One DAG per YAML file of the submissions folder; Airflow reads this file again and again."""

from inferbench_tasks.provider.loader import load_submissions

globals().update(load_submissions())
