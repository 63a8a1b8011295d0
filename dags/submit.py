"""The ``submit`` DAG, and a DAG per submission that came by it; Airflow reads this file again and again."""

from inferbench_tasks.provider.submit.dag import load_submit

globals().update(load_submit())
