"""BenchmarkJade's published table (its README) and logs as its jobs wrote them, cut to the lines that are read."""

from __future__ import annotations

HEADER = (
    "| Cluster | Dataset | Benchmark | Device Name | # Devices | Num Workers | Data Loading Time | "
    "Data Processing Time | Forward Time | Backward Time |\n| - | - | - | - | -: | -: | -: | -: | -: | -: |\n"
)
TABLE = f"""## Results

### Resnet 50 (fp32)
{HEADER}\
| TN | ImageNet | Inference | V100 | 1 | 4 | 0.1022 | - | 0.1128 | - |
| TN | ImageNet | Train | V100 | 1 | 4 | 0.0100 | - | 0.1233 | 0.2378 |
| TN | ImageNet | Smooth Inference | V100 | 1 | 4 | 0.1009 | 0.0009 | 0.0082 | - |
| TN | Dummy | Inference | V100 | 1 | 4 | 0.0317 | - | 0.1116 | - |
| TN | Dummy | Train | V100 | 1 | 4 | 0.0294 | - | 0.1226 | 0.2377 |
| TN | Dummy | Smooth Inference | V100 | 1 | 4 | 0.1014 | 0.0009 | 0.0079 | - |
| TN | ImageNet | Inference | A40 | 1 | 4 | 0.0403 | - | 0.0962 | - |
| TN | Dummy | Inference | A40 | 1 | 4 | 0.0267 | - | 0.0955 | - |
| TN | ImageNet | Inference | A40 | 8 | 4 | 0.0913 | - | 0.1321 | - |
| TN | Dummy | Inference | A40 | 8 | 4 | 0.0539 | - | 0.1251 | - |
| JADE2 | ImageNet | Inference | V100 | 4 | 4 | 5.8355 | - | 1.1637 | - |
| JADE2 | ImageNet | Smooth Inference | V100 | 4 | 4 | 0.2201 | 0.0503 | 0.0400 | - |
| JADE2 | Dummy | Smooth Inference | V100 | 4 | 4 | 0.1844 | 0.0468 | 0.559 | - |
| JADE2 | ImageNet | Inference | V100 | 1 | 4 | 1.0153 | - | 0.1510 | - |
| JADE2 | Dummy | Inference | V100 | 1 | 4 | 0.4596 | - | 0.1871 | - |

### Expected Speed
"""
_WARNING = (
    "x/dataloader.py:561: UserWarning: This DataLoader will create 4 worker processes in total. Our suggested max "
    "number of worker in current system is 2, which is smaller than what this DataLoader is going to create.\n"
)


def log(
    data: str = "imagenet",
    devices: int = 8,
    loading_s: float = 5.8355,
    forward_s: float = 1.1637,
    backward_s: float = 0.0,
    processing_s: float = 0.0,
    *,
    warns: bool = True,
) -> str:
    """A job's log; as it is, that of the table's slowest row."""
    return f"""{_WARNING if warns else ""}Arguments
dataset: {data}
batch_size: 128
num_workers: 4
precision: 32-true
architecture: resnet50
strategy: ddp

System Information
Physical CPU Cores: 40
Virtual CPU Cores:  80
torch version:      2.0.0+cu117
driver version:     470.182.03
Devices:            {devices} x Tesla V100-SXM2-32GB-LS
Benchmark Results
Devices used:                    {devices} x Tesla V100-SXM2-32GB-LS
Average Data Loading Time:       {loading_s:.4f} seconds
Average Data Preprocessing Time: {processing_s:.4f} seconds
Average Forward Pass Time:       {forward_s:.4f} seconds
Average Backward Pass Time:      {backward_s:.4f} seconds
Total Script Time:               343.8378 seconds
"""
