"""How much the latency changes from one request to the next, as a figure of InferBench."""
