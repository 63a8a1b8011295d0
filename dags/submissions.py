"""One DAG per YAML file of the submissions folder; Airflow reads this file again and again."""

from inferbench_tasks.provider.loader import load_submissions
from inferbench_tasks.provider.submit.dag import by_file

globals().update(load_submissions(by_file=by_file))
