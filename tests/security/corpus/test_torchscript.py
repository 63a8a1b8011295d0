"""TorchScript files that would touch files, run code or read memory that is not theirs."""

import pickle
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.submission.model import FileModel
from tests.skips import needs

pytestmark = needs("torch")
SIGNATURE = (
    '{"inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],'
    ' "outputs": [{"name": "y", "dtype": "float32", "shape": [4]}]}'
)
HEAD = """class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  {attributes}
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    {body}
    return x
"""


@cache
def _entries() -> dict[str, bytes]:
    """The records of an honest module ``__torch__.Net`` without weights."""
    import io

    import torch

    class Net(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.trace(Net().eval(), torch.rand(2, 4)), stream)
    with zipfile.ZipFile(stream) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def written(folder: Path, changes: dict[str, bytes | None]) -> Path:
    """An archive with other records; None takes one out."""
    with zipfile.ZipFile(folder / "m.pt", "w") as archive:
        for name, content in {**_entries(), **changes}.items():
            if content is not None:
                archive.writestr(f"m/{name}", content)
    (folder / "m.pt.signature.json").write_text(SIGNATURE)
    return folder


def source(body: str = "pass", attributes: str = "") -> bytes:
    """The module's source with these statements in ``forward``."""
    return HEAD.format(body=body, attributes=attributes).encode()


def load(folder: Path) -> None:
    """The way of a user's model file, from the submission to the cache."""
    (folder / "made").mkdir()
    FileSource(FileModel(kind="file", path="m.pt"), folder).make(folder / "made", Watch())


CODE = "code/__torch__.py"
BODIES = [
    'y = torch.from_file("{canary}", True, 16, dtype=0)',
    'torch.save(x, "{canary}")',
    '(x).save("{canary}")',
    'x.save("{canary}")',
    '("text").save("{canary}")',
    '[1, 2].save("{canary}")',
    'ops.aten.save(x, "{canary}")',
    'ops.aten.from_file("{canary}", True, 16, dtype=0)',
    'f = torch.save\n    f(x, "{canary}")',
    'f = x.save\n    f("{canary}")',
    'getattr(x, "save")("{canary}")',
    'getattr(x, "sa" "ve")("{canary}")',
    'getattr(torch, "save")(x, "{canary}")',
    'getattr(x, "\\163ave")("{canary}")',
    "t = torch\n    t.relu(x)",
    "o = ops\n    o.aten.relu(x)",
    "o = ops.aten\n    o.relu(x)",
    "n = __torch__.torch\n    n.classes",
    "ops.prim.Print(x)",
    'print("x")',
    "ops.prim.PythonOp(x)",
    'rpc_async("worker", __torch__.Net.forward, (x,))',
    'ops.prim.rpc_sync("worker", __torch__.Net.forward, (x,))',
    'rpc_remote("worker", __torch__.Net.forward, (x,))',
    'ops.debugprims.load_tensor("{canary}", [1], [1], dtype=6, device="cpu")',
    'ops.image.write_file("{canary}", x)',
    'ops.image.read_file("{canary}")',
    "ops.c10d.recv_any_source_([x], x, 1)",
    'ops._c10d_functional.all_reduce(x, "sum", "0")',
    "ops.mkldnn.data_ptr(x)",
    'ops.profiler._record_function_enter("x", None)',
    "ops.symm_mem.nvshmem_put(x, 0)",
    'r = __torch__.torch.classes.aoti.AOTIModelPackageLoader("{canary}")',
    'r = __torch__.torch.classes.dist_c10d.Store("{canary}")',
    "r = __torch__.torch.classes.profiler._RecordFunction(1)",
    "torch.no_such_operator(x)",
    "x.no_such_method()",
    "NoSuchName(x)",
    "eval(x)",
    'open("{canary}")',
    "(lambda: x)()",
    "import os",
    "y = [i for i in range(3)]",
    'y = f"{{x}}"',
    "torch = x",
    "ops = x",
    "y = 'text'",
    'y = """text"""',
    'y = b"text"',
    "y = 1 # text",
    "y = 1 + \\\n      1",
    "y = " + "(" * 500 + "x" + ")" * 500,
    "y = " + "-" * 200_000 + "1",
    "y = x\x0c",
    "y = \u0435val",
    "^PythonOp(x)",
    "yield x",
    "global y",
    "async def f(): pass",
    "raise x",
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:40]))
def test_code_that_does_more_than_compute_is_refused(tmp_path: Path, body: str) -> None:
    """Each is refused with the record's name before PyTorch sees it, and no file was touched."""
    canary = tmp_path / "canary"
    statement = body.replace("{canary}", str(canary))
    written(tmp_path, {CODE: source().replace(b"    pass\n", f"    {statement}\n".encode())})
    with pytest.raises(InputError, match=r"code/__torch__\.py (uses|has|is|gives)"):
        load(tmp_path)
    assert not canary.exists()


@pytest.mark.parametrize("name", ["__setstate__", "__getstate__", "__enter__", "forward", "__init__"])
def test_methods_that_run_while_loading_are_read_too(tmp_path: Path, name: str) -> None:
    """PyTorch calls ``__setstate__`` before anybody asks for an answer."""
    canary = tmp_path / "canary"
    method = f'  def {name}(self: __torch__.Net, state: Tensor) -> NoneType:\n    (state).save("{canary}")\n'
    written(tmp_path, {CODE: source() + method.encode()})
    with pytest.raises(InputError, match="uses 'save'"):
        load(tmp_path)
    assert not canary.exists()


def test_what_pytorch_itself_writes_of_such_a_module_is_refused(tmp_path: Path) -> None:
    """A module that overwrites a file when it is loaded, scripted and saved by PyTorch."""
    import torch

    canary = tmp_path / "canary"
    canary.write_text("untouched")

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.path = str(canary)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.from_file(self.path, True, 4, dtype=torch.float32)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Net()).save(str(tmp_path / "m.pt"))
    (tmp_path / "m.pt.signature.json").write_text(SIGNATURE)
    with pytest.raises(InputError, match="from_file"):
        load(tmp_path)
    assert canary.read_text() == "untouched"


@pytest.mark.parametrize(
    "name",
    ["model.json", "tensors.json", "attributes.pkl", "bytecode.pkl", "mobile_debug_handles.pkl", "code/x.so",
     "data/0/x", "CODE/__torch__.py", "code/__torch__.PY", "_extra/x", "extra/../code/x.py", "constants/x.so"],
)  # fmt: skip
def test_unknown_records_are_refused(tmp_path: Path, name: str) -> None:
    """Other forms have readers of their own, and names that differ by case are one to PyTorch."""
    written(tmp_path, {name: b"{}"})
    with pytest.raises(InputError, match="nothing that torch.jit.save writes|same name twice|lead out"):
        load(tmp_path)


class _Call:
    """Pickles into a call of ``os.system``."""

    def __reduce__(self) -> Any:
        import os

        return os.system, ("touch canary",)


def pickled(*opcodes: bytes) -> bytes:
    """A pickle of protocol 2."""
    return b"\x80\x02" + b"".join(opcodes) + b"."


def number(value: int) -> bytes:
    """A whole number, pickled."""
    return b"J" + value.to_bytes(4, "little", signed=True)


def text(value: bytes) -> bytes:
    """A text, pickled."""
    return b"X" + len(value).to_bytes(4, "little") + value


def tensor(kind: bytes = b"FloatStorage", elements: int = 4, size: int = 4, stride: int = 1) -> bytes:
    """A pickled tensor of one dimension, whose bytes are in ``data/0``."""
    storage = b"(" + text(b"storage") + b"ctorch\n" + kind + b"\n" + text(b"0") + text(b"cpu")
    storage += number(elements) + b"tQ"
    shape = number(0) + b"(" + number(size) + b"t(" + number(stride) + b"t"
    ordered = b"\x89ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + shape + ordered + b"tR"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps(_Call(), protocol=2), "names '.*system'"),
        (pickle.dumps(_Call(), protocol=4), "the instruction"),
        (pickled(b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R"), "names 'builtins.eval'"),
        (pickled(b"ctorch.distributed.rpc\nrref\n)R"), "names 'torch.distributed.rpc.rref'"),
        (pickled(b"c__torch__.torch.classes.aoti\nAOTIModelPackageLoader\n)\x81"), "names '__torch__.torch.cl"),
        (pickled(b"c__torch__\nOther\n)\x81"), "names '__torch__.Other'"),
        (pickled(b"N" + b"r" + (2**31).to_bytes(4, "little")), "under the number 2147483648"),
        (pickled(b"(i__torch__\nNet\n"), "the instruction INST"),
        (pickled(b"\x82\x01"), "the instruction EXT1"),
        (b"\x80\x02", "is damaged"),
        (b"", "is damaged"),
        (pickled(b"R"), "is damaged"),
        (pickled(tensor(elements=1_000_000)), "1,000,000 elements of FloatStorage in the 16 bytes"),
        (pickled(tensor(elements=-4)), "a storage of the form"),
        (pickled(tensor(b"ObjectStorage")), "names 'torch.ObjectStorage'"),
        (pickled(tensor(size=2_000_000_000)), "2,000,000,000 elements in a storage of 4"),
        (pickled(tensor(size=2, stride=1_000_000)), "in a storage of 4"),
        (pickled(tensor(size=-1)), "a tensor of the shape"),
        (pickled(tensor(stride=-1)), "a tensor of the shape"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("record", ["data.pkl", "constants.pkl", "traced_inputs.pkl"])
def test_pickles_with_foreign_classes_or_sizes_are_refused(
    tmp_path: Path, record: str, content: bytes, message: str
) -> None:
    """No class from elsewhere, and no tensor that is larger than its bytes, which PyTorch does not compare."""
    storage = f"{record.removesuffix('.pkl')}/0"
    written(tmp_path, {record: content, storage: b"\x00" * 16})
    with pytest.raises(InputError, match=message):
        load(tmp_path)


def test_where_lines_come_from_has_no_classes(tmp_path: Path) -> None:
    """The records beside the source are pickles too, of texts and numbers."""
    written(tmp_path, {f"{CODE}.debug_pkl": pickle.dumps(_Call(), protocol=2)})
    with pytest.raises(InputError, match="debug_pkl names"):
        load(tmp_path)


def _modules() -> dict[str, Callable[[], Any]]:
    import torch
    from torch import nn

    class Words(nn.Module):  # type: ignore[misc]
        """Control flow, containers, texts, and an attribute that is called as nothing else is."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.classes = 4
            self.register_buffer("index", torch.arange(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            if x.shape[0] == 0:
                raise ValueError(f"an empty batch of {self.classes} classes")
            future = torch.jit.fork(torch.relu, x)
            z = torch.zeros([2, 3], device=x.device)
            while bool(z.sum() < 1.0):
                z = z + 1.0
            values = [x[:, 0], x[..., -1]]
            return torch.jit.wait(future) + torch.stack(values, 1).sum() + self.index

    return {
        "dense": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 4)),
        "words": Words,
        "quantised": lambda: torch.ao.quantization.quantize_dynamic(
            nn.Sequential(nn.Linear(4, 4)), {nn.Linear}, dtype=torch.qint8
        ),
        "attention": lambda: nn.Sequential(nn.Unflatten(1, (1, 4)), nn.TransformerEncoderLayer(4, 2, 8), nn.Flatten()),
        "convolution": lambda: nn.Sequential(
            nn.Unflatten(1, (1, 2, 2)), nn.ConvTranspose2d(1, 1, 1), nn.BatchNorm2d(1), nn.Upsample(scale_factor=2),
            nn.MaxPool2d(2), nn.Hardswish(), nn.Flatten(), nn.Softmax(-1)
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["dense", "words", "quantised", "attention", "convolution"])
@pytest.mark.parametrize("form", ["scripted", "traced", "frozen"])
def test_honest_modules_still_load(tmp_path: Path, name: str, form: str) -> None:
    """What PyTorch scripts, traces and freezes of ordinary layers passes and gives its answers."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = _modules()[name]().eval()
        example = torch.rand(2, 4)
        made = (
            torch.jit.trace(module, example, check_trace=False)
            if form == "traced"
            else torch.jit.script(module)
        )
        if form == "frozen" and name != "quantised":  # PyTorch can't freeze packed weights
            made = torch.jit.freeze(made)
        torch.jit.save(made, str(tmp_path / "m.pt"))
        (tmp_path / "m.pt.signature.json").write_text(SIGNATURE)
        load(tmp_path)
        again = torch.jit.load(str(tmp_path / "made" / "model.pt"))
        assert torch.allclose(again(example), module(example), atol=1e-5)
