"""What Airflow asks a provider package about itself."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Metadata for Airflow's provider manager."""
    return {
        "package-name": "inferbench",
        "name": "InferBench",
        "description": "Benchmarks of deep-learning inference serving, as DAGs.",
    }
