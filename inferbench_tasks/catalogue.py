"""The tables under ``configs/``: hardware, prices, carbon; each row with its source and date.

``INFERBENCH_CONFIG_DIR`` names another folder. A file that is missing is an empty table; one that is wrong is
an InputError that names file and row.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferbench_tasks.errors import InputError
from inferbench_tasks.stamps import Stamp, stamp

CONFIG_DIR = "INFERBENCH_CONFIG_DIR"
_SHIPPED = Path(__file__).resolve().parents[1] / "configs"
#: Boards of a GPU with peaks, bandwidth or power of their own, and parts of one (MIG, NVIDIA's virtual GPUs: ``GRID``,
#: ``A100-20C``). A row is of one only where its own name says so, whatever its expression matches.
_VARIANT = re.compile(r"\b(PCIe|NVL|FHHL|DGXS|CNX|SXM3|MIG|GRID)\b|-\d+[ABCQ]\b", re.IGNORECASE)
#: A size of memory in a name: ``A100-SXM4-40GB``, ``H100 80GB HBM3``.
_MEMORY_GB = re.compile(r"\b(\d+) ?GB\b", re.IGNORECASE)
#: Architectures without tensor cores for a type: runtimes take ways there that no peak of the table tells.
_WITHOUT_TENSOR_CORES = {
    "fp16": ("Pascal",),
    "bf16": ("Pascal", "Volta", "Turing"),
    "tf32": ("Pascal", "Volta", "Turing"),
}
#: Precision -> where the datasheet has its peak.
_PEAKS = {
    "fp32": "fp32_tflops",
    "tf32": "tf32_tflops",
    "fp16": "fp16_tflops",
    "bf16": "fp16_tflops",
    "int8": "int8_tops",
}
Positive = Annotated[float, Field(gt=0)]


class Row(BaseModel):
    """Where a row's figures come from, and when they held."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    source: Annotated[str, Field(min_length=1)]
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")]


class Hardware(Row):
    """A processor or accelerator. ``match``: a regular expression on the name that the system tells.

    Peaks are the datasheet's, dense, without sparsity. ``paper_id``: its label in the paper's Table 1.
    """

    name: str
    match: str
    kind: Literal["cpu", "gpu"]
    paper_id: str | None = None
    architecture: str | None = None
    cores: int | None = None
    memory_gb: Positive | None = None
    bandwidth_gb_s: Positive | None = None
    fp32_tflops: Positive | None = None
    tf32_tflops: Positive | None = None
    fp16_tflops: Positive | None = None
    int8_tops: Positive | None = None
    tdp_w: Positive | None = None
    #: Where the name does not tell the product: a processor family's mean.
    tdp_per_core_w: Positive | None = None

    @property
    def watt_per_core(self) -> float | None:
        """TDP shared by the physical cores."""
        if self.tdp_per_core_w:
            return self.tdp_per_core_w
        return self.tdp_w / self.cores if self.tdp_w and self.cores else None

    def computes(self, precision: str) -> bool:
        """Whether the architecture computes it with units of its own; TF32 is a GPU's."""
        if precision not in _PEAKS or (precision == "tf32" and self.kind != "gpu"):
            return False
        return self.architecture not in _WITHOUT_TENSOR_CORES.get(precision, ())

    def peak(self, precision: str) -> float | None:
        """10^12 operations/s; None where the table has none, or the architecture does not compute it that way."""
        if not self.computes(precision):
            return None
        value: float | None = getattr(self, _PEAKS[precision])
        return value


class Price(Row):
    """An instance's on-demand rate. ``match``: as in Hardware, on the device's name.

    ``approximate``: the hypervisor hides which product it is; the instance is one of the same family.
    ``unverified``: nobody looked the rate up at ``date``; figures made from it say so.
    """

    provider: str
    instance: str
    region: str
    kind: Literal["cpu", "gpu"]
    device: str
    match: str
    devices: Annotated[int, Field(ge=1)] = 1
    vcpus: Annotated[int, Field(ge=1)] | None = None
    #: Of one GPU of the instance, where that product is made with several sizes.
    memory_gb: Positive | None = None
    usd_per_hour: Positive
    approximate: bool = False
    unverified: bool = False


class Carbon(Row):
    """Life-cycle emissions of a region's electricity."""

    region: str
    g_per_kwh: Positive


R = TypeVar("R", bound=Row)


def hardware_rows() -> tuple[Hardware, ...]:
    """The rows of ``hardware.yaml``: what is known of processors and GPUs by name."""
    return read_table("hardware.yaml", Hardware)


def price_rows() -> tuple[Price, ...]:
    """The rows of ``prices.yaml``: what an hour of a machine costs."""
    return read_table("prices.yaml", Price)


def carbon_rows() -> tuple[Carbon, ...]:
    """The rows of ``carbon.yaml``: how much CO2 a kilowatt hour makes in each region."""
    return read_table("carbon.yaml", Carbon)


def find_hardware(name: str) -> Hardware | None:
    """The first row that matches a device's name and is of that very board; see ``_of_that_board``."""
    return next(
        (
            row
            for row in hardware_rows()
            if re.search(row.match, name, re.IGNORECASE) and _of_that_board(name, row, row.name)
        ),
        None,
    )


def prices_for(kind: str, name: str) -> list[Price]:
    """The instances with that very device; those with exactly it before the approximate ones, which stand in."""
    matching = [
        row
        for row in price_rows()
        if row.kind == kind
        and re.search(row.match, name, re.IGNORECASE)
        and _of_that_board(name, row, row.device)
    ]
    return [row for row in matching if not row.approximate] or matching


def _of_that_board(name: str, row: Hardware | Price, of_row: str) -> bool:
    """Whether a GPU's name tells no variant that the row's own name does not, and no memory but the row's: no match is
    better than another board's bandwidth, power or price. Processors have no boards.
    """
    if row.kind != "gpu":
        return True
    told, own = ({word.casefold() for word in _variants(text)} for text in (name, of_row))
    sizes = {float(size) for size in _MEMORY_GB.findall(name)}
    return told <= own and (row.memory_gb is None or sizes <= {row.memory_gb})


def _variants(name: str) -> list[str]:
    return [match[0] for match in _VARIANT.finditer(name)]


def read_table(file: str, model: type[R]) -> tuple[R, ...]:
    """The rows of a table under ``configs/``; () if the file is missing."""
    return _rows(config_folder() / file, model)


def config_folder() -> Path:
    """Where the tables and manifests of this installation lie."""
    folder = os.environ.get(CONFIG_DIR)
    return Path(folder) if folder else _SHIPPED


def _rows(path: Path, model: type[R]) -> tuple[R, ...]:
    try:
        read = stamp(path)
    except OSError:
        return ()
    return _read(path, read, model)


@lru_cache(maxsize=16)
def _read(path: Path, read: Stamp, model: type[R]) -> tuple[R, ...]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        rows = content["rows"]
    except (yaml.YAMLError, OSError, KeyError, TypeError) as error:
        raise InputError(f"{path} must be YAML with a list under `rows:`: {error}") from error
    if not isinstance(rows, list):
        raise InputError(f"{path} must be YAML with a list under `rows:`; got {type(rows).__name__}")
    models = []
    for index, row in enumerate(rows):
        try:
            models.append(model.model_validate(row))
            re.compile(row.get("match", ""))
        except (ValidationError, re.error, AttributeError) as error:
            raise InputError(f"{path}, row {index + 1}: {error}") from error
    return tuple(models)
