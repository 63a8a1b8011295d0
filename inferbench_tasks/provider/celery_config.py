"""Celery's settings of InferBench's workers: Airflow's own, and what they import before they fork a task."""

from __future__ import annotations

from typing import Any

from airflow.providers.celery.executors.default_celery import DEFAULT_CELERY_CONFIG

CELERY_CONFIG: dict[str, Any] = {
    **DEFAULT_CELERY_CONFIG,
    "imports": ("inferbench_tasks.provider.preload", "inferbench_tasks.provider.joining.guard"),
}
