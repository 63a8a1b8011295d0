"""What InferBench needs to know of it."""

from inferbench_tasks.backends.own_server import OwnServer


class OnnxReference(OwnServer):
    """Protocols, batching, statistics, readiness and cold start come with InferBench's server."""

    kind = "onnx_reference"
    formats = ("onnx",)
    engine = "onnx_reference"  # the name in the entry points
    package = "onnx"  # its version goes into every result
    title = "ONNX reference evaluator"
