"""``tflite``: TensorFlow Lite files by LiteRT in our FastAPI server."""

from __future__ import annotations

from inferbench_tasks.backends.own_server import OwnServer


class TfLite(OwnServer):
    """One interpreter per instance."""

    kind = "tflite"
    formats = ("tflite",)
    engine = "tflite"
    package = "ai-edge-litert"
    extra = "tflite"
    title = "LiteRT"
