"""EfficientNet-Lite1 and Lite2 (Tan, Le, 2019; Google's "lite" variant: no squeeze-and-excitation, ReLU6)."""

from inferbench_tasks.modelrepo.networks.efficientnet_lite import build

__all__ = ["build"]
