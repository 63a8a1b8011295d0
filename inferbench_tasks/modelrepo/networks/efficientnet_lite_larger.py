"""EfficientNet-Lite1 and Lite2 (Tan, Le, 2019; Google's "lite" variant: no squeeze-and-excitation, ReLU6)."""

# A module of its own: what its docstring says stands in the manifests of these two, and Lite0's never changes.
from inferbench_tasks.modelrepo.networks.efficientnet_lite import build

__all__ = ["build"]
