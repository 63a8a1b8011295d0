"""Hugging Face's Accelerate as a trainer of InferBench."""
