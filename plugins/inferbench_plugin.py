"""InferBench's plugin as Airflow reads it from its plugins folder: pages and REST API, links, listeners, priorities.

What is registered stands in ``inferbench_tasks.provider.plugin``. A package that is installed without this folder
has the same plugin as an entry point, which yields nothing once this file was read (``provider/plugins_folder.py``).
"""

from inferbench_tasks.provider.plugin import InferBenchPlugin

__all__ = ["InferBenchPlugin"]
