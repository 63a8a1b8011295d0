"""The pages that Airflow's navigation and our own lead to."""

from __future__ import annotations

#: Path below /inferbench -> name in the navigation.
PAGES = {
    "leaderboard": "Leaderboard",
    "runs": "Runs",
    "compare": "Compare",
    "recommend": "Recommend",
    "cluster": "Cluster",
    "regression": "Regression",
}
