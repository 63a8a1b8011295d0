"""The stages of ``kind: training``, in this order: generate, train, collect, release; analyze once for all jobs."""
