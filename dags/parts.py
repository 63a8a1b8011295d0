"""A DAG per part of a large submission that is under way; Airflow reads this file again and again."""

from inferbench_tasks.provider.parts.dag import load_parts

globals().update(load_parts())
