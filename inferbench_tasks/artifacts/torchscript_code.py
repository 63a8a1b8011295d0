"""The words that the source of a TorchScript archive may use.

The source is a part of Python, written by a printer, so Python's own parser reads it, and forms that the printer
never writes are refused: what could be read one way here and another way by PyTorch does not come through. Names
lead to operators as ``torch.name``, as a method of any value, as ``ops.space.name``, and through ``getattr``; each
has to be one of PyTorch's that computes. Whole namespaces can't be assigned, so no name hides behind another.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache

#: Read or write files, print, or talk to other processes; nothing in an archive may have such a name.
FORBIDDEN = {
    "from_file", "save", "load", "load_tensor", "load_library", "print", "_print", "Print", "rpc_async", "rpc_sync",
    "rpc_remote", "to_here", "owner", "owner_name", "confirmed_by_owner", "is_owner", "local_value",
    "dist_backward", "record_stream", "set_data", "PythonOp", "IgnoredPythonOp", "has_torch_function", "open",
    "eval", "exec", "__import__", "compile", "data_ptr", "set_num_threads", "_propagate_xla_data",
}  # fmt: skip
#: Arguments by which an operator would be led to a file.
FILE_ARGUMENT = re.compile(r"file|path|dir", re.IGNORECASE)
PRIM = {
    "NumToTensor", "RaiseException", "ConstantChunk", "EnumName", "EnumValue", "ModuleContainerIndex", "StringIndex",
    "TupleIndex", "TupleUnpack", "Uninitialized", "abs", "data", "device", "dtype", "grad", "id", "index", "is_cpu",
    "is_cuda", "is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized",
    "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu", "itemsize", "layout", "max", "min", "name",
    "nbytes", "rangelist", "requires_grad", "shape", "tolist", "type", "unchecked_cast",
    "unchecked_unwrap_optional", "BroadcastSizes", "ReductionSizes", "ChunkSizes", "VarConcat", "VarStack",
    "ConstantMKLDNNTensor", "MKLDNNClamp", "MKLDNNHardSigmoid", "MKLDNNHardSwish", "MKLDNNHardTanh",
    "MKLDNNLayerNorm", "MKLDNNScalarMul", "BroadcastMKLDNNTensors", "mkldnn_convolution",
}  # fmt: skip
#: Namespaces whose operators compute; what a namespace has is PyTorch's word.
SPACES = {"quantized", "_quantized", "sparse", "mkldnn_prepacked", "mkldnn", "onednn", "prims"}
TORCHVISION = {"nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"}
#: Compiled classes: weights packed for quantised operators. Others load libraries or talk to other processes.
COMPILED = re.compile(r"__torch__\.torch\.classes\.(quantized|sparse|rnn)\.\w+", re.ASCII)
#: Of values: what is no operator and yet there.
PROPERTIES = {
    "T", "H", "mT", "mH", "real", "imag", "ndim", "value", "unpack", "__getstate__", "__setstate__", "grad_fn",
    "__new__", "__init__", "__enter__", "__exit__",
    "forward", "training",
} | PRIM  # fmt: skip
NAMES = {
    "annotate", "unchecked_cast", "uninitialized", "range", "len", "int", "float", "bool", "str", "complex", "list",
    "dict", "tuple", "isinstance", "getattr", "hasattr", "fork", "awaitable", "inf", "nan", "infj", "nanj", "device",
    "min", "max", "abs", "sum", "all", "any", "zip", "enumerate", "sorted", "ord", "chr", "round", "pow", "divmod",
    "slice", "number", "Scalar", "Tensor", "List", "Dict", "Optional", "Union", "Tuple", "NoneType", "Any", "Final",
    "Future", "Await", "Device", "Generator", "Layout", "QScheme", "Storage", "Function", "AnyEnumType", "Module",
    "NamedTuple", "Enum", "Interface", "ModuleInterface", "Exception", "NotImplemented", "SymInt", "Stream",
    "__annotations__", "Literal", "Dimname", "MemoryFormat", "ScalarType",
}  # fmt: skip
ROOTS = {"torch", "ops", "__torch__", "CONSTANTS"}
CONSTANT = re.compile(r"c\d{1,9}", re.ASCII)
IDENTIFIER = re.compile(r"\w{1,200}", re.ASCII)
#: As the printer writes it: one line, double quotes, no prefix.
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"', re.ASCII)
LAYOUT = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
NODES = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg, ast.keyword, ast.Assign, ast.AnnAssign, ast.Expr,
    ast.Return, ast.If, ast.For, ast.While, ast.With, ast.withitem, ast.Pass, ast.Assert, ast.Delete, ast.Call,
    ast.Attribute, ast.Name, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Subscript, ast.Slice, ast.UnaryOp,
    ast.USub, ast.Not, ast.BinOp, ast.operator, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop, ast.IfExp, ast.Starred,
    ast.expr_context,
)  # fmt: skip


class Forbidden(Exception):
    """What the allow-lists don't have, and in which record."""

    def __init__(self, reason: str, entry: str = "") -> None:
        super().__init__(reason)
        self.entry = entry


def check(texts: dict[str, str]) -> frozenset[str]:
    """``texts``: record (``code/__torch__/m.py``) -> source. The qualified names of its classes; raises Forbidden."""
    trees: dict[str, ast.Module] = {}
    for entry, text in texts.items():
        try:
            _check_tokens(text)
            trees[entry] = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
            raise Forbidden(f"is no source of TorchScript: {error!r:.200}", entry) from error
        except Forbidden as error:
            raise Forbidden(str(error), entry) from error
    types: set[str] = set()
    functions: set[str] = set()
    for entry, tree in trees.items():
        module = entry.removeprefix("code/").removesuffix(".py").replace("/", ".")
        types |= {f"{module}.{n.name}" for n in tree.body if isinstance(n, ast.ClassDef)}
        functions |= {f"{module}.{n.name}" for n in tree.body if isinstance(n, ast.FunctionDef)}
    members = {name for tree in trees.values() for name in _members(tree)}
    for entry, tree in trees.items():
        try:
            _Source(types | functions, members).check(tree)
        except (Forbidden, RecursionError) as error:
            raise Forbidden(str(error), entry) from error
    return frozenset(types)


def _check_tokens(text: str) -> None:
    """The forms that Python and PyTorch read alike, and no word that is nobody's here."""
    if not all(character.isprintable() or character == "\n" for character in text):
        raise Forbidden("has characters that no source of TorchScript has")
    if "\\\n" in text:
        raise Forbidden("has lines that go on on the next")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            if token.string in FORBIDDEN:
                raise Forbidden(
                    f"uses {token.string!r}, which reads or writes files or talks to other processes"
                )
        elif token.type == tokenize.STRING:
            if not STRING.fullmatch(token.string):
                raise Forbidden(f"has the text {token.string[:80]}, which is not as TorchScript writes it")
        elif token.type not in LAYOUT and token.type not in (tokenize.OP, tokenize.NUMBER):
            raise Forbidden(f"has {token.string[:80]!r}, which is no part of TorchScript")


def _members(tree: ast.Module) -> Iterator[str]:
    """The names of a file's classes, methods and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
                    if isinstance(target, ast.Name):
                        yield target.id
                    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                        yield str(target.slice.value)


class _Source:
    """One file. ``qualified``: the archive's functions and classes; ``members``: of its classes."""

    def __init__(self, qualified: set[str], members: set[str]) -> None:
        self._qualified, self._members = qualified, members

    def check(self, tree: ast.Module) -> None:
        stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        stored |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        stored |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}  # also what is forked
        if taken := stored & (ROOTS | {"getattr", "hasattr"}):
            raise Forbidden(f"gives {sorted(taken)[0]!r} another meaning")
        inner: set[int] = set()
        for node in ast.walk(tree):  # an outer attribute comes before its inner ones
            if not isinstance(node, NODES):
                raise Forbidden(f"has {type(node).__name__}, which is no part of TorchScript")
            if isinstance(node, ast.Attribute):
                inner.add(id(node.value))
                self._attribute(node, is_inner=id(node) in inner)
            elif isinstance(node, ast.Name) and id(node) not in inner:
                if node.id in ROOTS or node.id not in stored | NAMES:
                    raise Forbidden(f"uses {node.id!r}, which is nothing of TorchScript's")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self._by_name(node)

    def _attribute(self, node: ast.Attribute, *, is_inner: bool) -> None:
        words = _chain(node)
        if words is None or words[0] not in ROOTS:
            self._member(node.attr)
            return
        if is_inner:
            return  # judged with the whole of it
        root, *rest = words
        if root == "CONSTANTS" and CONSTANT.fullmatch(rest[0]):
            for name in rest[1:]:
                self._member(name)
            return
        whole = ".".join(words)
        allowed = {
            "torch": len(rest) == 1 and rest[0] in operators("aten"),
            "ops": len(rest) == 2 and rest[1] in operators(rest[0]),
            "__torch__": COMPILED.fullmatch(whole) is not None or self._is_own(words),
        }
        if not allowed.get(root):
            raise Forbidden(f"uses {whole[:120]!r}, which is no operator that only computes")

    def _is_own(self, words: list[str]) -> bool:
        """A class or function of the archive, or what follows such a one (a method, a value of an Enum)."""
        names = [".".join(words[: i + 1]) for i in range(len(words))]
        at = [i for i, name in enumerate(names) if name in self._qualified]
        return bool(at) and all(self._is_member(word) for word in words[at[0] + 1 :])

    def _is_member(self, name: str) -> bool:
        return name in self._members or name in PROPERTIES or name in operators("aten")

    def _member(self, name: str) -> None:
        if name in FORBIDDEN or not self._is_member(name):
            raise Forbidden(
                f"uses {name[:120]!r}, which is neither of the archive nor an operator that only computes"
            )

    def _by_name(self, call: ast.Call) -> None:
        """``getattr(value, "name")`` is what an attribute is whose name begins with a digit."""
        assert isinstance(call.func, ast.Name)
        if call.func.id not in ("getattr", "hasattr"):
            return
        value, *names = call.args
        name = names[0].value if len(names) == 1 and isinstance(names[0], ast.Constant) else None
        words = _chain(value)
        if not isinstance(name, str) or not IDENTIFIER.fullmatch(name) or (words and words[0] in ROOTS):
            raise Forbidden(f"has {call.func.id} of something else than a value's own name")
        self._member(name)


def _chain(node: ast.expr) -> list[str] | None:
    """``a.b.c`` as words; None where it begins with something else than a name."""
    words: list[str] = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return [node.id, *reversed(words)] if isinstance(node, ast.Name) else None


@cache
def operators(space: str) -> frozenset[str]:
    """The operators of a namespace that compute and do nothing else."""
    if space == "prim":
        return frozenset(PRIM)
    if space == "torchvision":
        return frozenset(TORCHVISION)
    if space != "aten" and space not in SPACES:
        return frozenset()
    import torch

    names: set[str] = set()
    files: set[str] = set()
    for schema in torch._C._jit_get_all_schemas():
        prefix, _, name = schema.name.partition("::")
        if prefix == space:
            names.add(name)
            for argument in schema.arguments:
                if "str" in str(argument.type) and FILE_ARGUMENT.search(argument.name):
                    files.add(name)
    return frozenset(names - files - FORBIDDEN)
