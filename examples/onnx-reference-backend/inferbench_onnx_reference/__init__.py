"""An InferBench backend in a package of its own."""
