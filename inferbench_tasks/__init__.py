"""InferBench: an automatic benchmark of deep-learning inference serving.

Imports nothing: Airflow's provider discovery imports this package before Airflow is configured.
"""
