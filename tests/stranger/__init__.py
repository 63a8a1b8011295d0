"""Another local user: what somebody with a login on the machine, and none in InferBench, gets of a running system."""
