"""The InferBench paper's figures beside ours: what it says of each, and whether what was measured here agrees."""
