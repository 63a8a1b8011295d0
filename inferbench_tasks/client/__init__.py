"""A client of a running InferBench: ``from inferbench_tasks.client import InferBench``."""

from inferbench_tasks.client.api import InferBench
from inferbench_tasks.client.errors import AccessError, ApiError

__all__ = ["AccessError", "ApiError", "InferBench"]
