"""``tfs_protocol``: TensorFlow Serving's gRPC protocol over a SavedModel, on our own server.

A stand-in for machines on which TensorFlow Serving can't run, NOT TensorFlow Serving: its figures say
nothing about that server, and every result is labelled so.
"""

from __future__ import annotations

from typing import Any

from inferbench_tasks.backends.own_server import OwnServer, read_ports
from inferbench_tasks.backends.probes.base import Probe, open_probe
from inferbench_tasks.contracts.handles import Endpoint


class TfsProtocol(OwnServer):
    """The client path is TensorFlow Serving's, the server is ours."""

    kind = "tfs_protocol"
    formats = ("savedmodel",)
    protocols = ("grpc",)
    tfs_predict = True
    shared_memory = False
    replicas = False
    engine = "savedmodel"
    package = "tensorflow"
    extra = "tensorflow"
    title = "TensorFlow"
    grpc_service = "tfs"
    _host = "127.0.0.1"
    traced_levels = ("model", "framework", "layer")
    tells_spans = False  # its protocol has no place for them that our client reads

    def label(self) -> str:
        """The label that no result may lack."""
        return f"not TensorFlow Serving: its protocol on InferBench's server, TensorFlow {self.version()}"

    def on_live(self, endpoint: Endpoint, timeout_s: float) -> None:
        """Its other port is at the same address."""
        self._host = endpoint.host

    def statistics(self, probe: Probe) -> dict[str, Any] | None:
        """The protocol has none; the server's HTTP port tells them."""
        if self._address is None:
            return None
        port = read_ports(self._address)["http"]
        endpoint = Endpoint(protocol="http", host=self._host, port=port, model_name=self._model_name)
        beside = open_probe(endpoint)
        try:
            return beside.statistics()
        finally:
            beside.close()
