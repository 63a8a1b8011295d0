"""What an exported program (``.pt2``) may hold: PyTorch's loader evaluates and resolves strings of its JSON.

``torch.export.load`` hands shape expressions to sympy, which evaluates them as Python; it resolves names of
operators to any attribute of ``torch``, writes names of arguments into Python source, executes guards, and
loads shared libraries below ``data/aotinductor``. So every string is held against a grammar, by an
allow-list, before PyTorch sees the file. The archive is read by PyTorch's own reader: another one could be
shown another content.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError

#: ``torch._export.serde.schema.ScalarType`` -> PyTorch's names; of the others none are weights.
DTYPES = {
    1: "uint8", 2: "int8", 4: "int32", 6: "float16", 7: "float32", 8: "float64", 10: "complex64", 11: "complex128",
    13: "bfloat16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 34: "uint32",
}  # fmt: skip
MAX_JSON_BYTES = 256 << 20
MAX_EXPRESSION = 4096
#: Largest exponent in a shape expression; towers of powers take the machine's memory.
MAX_EXPONENT = 8
RECORDS = re.compile(
    r"data/weights/(weight_\d+|[\w-]+_weights_config\.json|[\w-]+\.pt)"
    r"|data/constants/(tensor_\d+|[\w-]+_constants_config\.json|[\w-]+\.pt)"
    r"|data/sample_inputs/[\w-]+\.pt|models/[\w-]+\.json"
    r"|archive_format|archive_version|version|byteorder|\.data/\w+",
    re.ASCII,
)
SYMBOL = re.compile(r"z?[suf]+\d{1,9}", re.ASCII)
#: Names of tensors, parameters and modules: nothing that could end one in Python source and begin a call.
WORD = re.compile(r"[\w.+\-]{0,500}", re.ASCII)
TARGET = re.compile(
    r"torch\.ops\.(aten|prim|prims|quantized|quantized_decomposed|torchvision)\.(\w+)(\.\w+)?"
    r"|torch\.ops\.higher_order\.(cond|scan|map_impl|while_loop|associative_scan|wrap_with_set_grad_enabled"
    r"|wrap_with_autocast)"
    r"|_operator\.(add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|and_|or_|xor|not_|invert|lshift|rshift"
    r"|eq|ne|lt|le|gt|ge|getitem|index)"
    r"|math\.(ceil|floor|trunc|sqrt|pow|exp|log|log2)"
    r"|torch\.sym_(int|float|min|max|not|ite|sum|sqrt|fresh_size|constrain_range|constrain_range_for_size)"
    r"|torch\._sym_sqrt",
    re.ASCII,
)
#: Operators that read or write files, or print.
FILE_OPERATORS = {"from_file", "save", "load_tensor", "_print"}
FUNCTIONS = {
    "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Max", "Min", "Mod", "FloorDiv",
    "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv",
    "PowByNatural", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat", "TruncToInt", "RoundToInt", "ToFloat",
    "Identity", "IsNonOverlappingAndDenseIndicator", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "Equality",
    "Unequality", "LessThan", "StrictLessThan", "GreaterThan", "StrictGreaterThan", "And", "Or", "Not",
}  # fmt: skip
ASSUMPTIONS = {
    "positive", "negative", "nonnegative", "nonpositive", "nonzero", "zero", "integer", "real", "finite",
    "extended_real", "commutative", "rational", "precision", "evaluate",
}  # fmt: skip
CONSTANTS = {"true", "false", "inf", "nan", "oo", "int_oo"}
CONTAINERS = {
    "builtins.tuple",
    "builtins.list",
    "builtins.dict",
    "collections.OrderedDict",
    "torch.fx.immutable_collections.immutable_list",
    "torch.fx.immutable_collections.immutable_dict",
}
GUARD = re.compile(r"[\w \[\]'().,+\-*/%<>=!]{1,4096}", re.ASCII)
GUARD_METHODS = {"size", "stride", "storage_offset", "dim", "numel"}
_OPERATORS = (
    ast.Expression, ast.Load, ast.UnaryOp, ast.USub, ast.UAdd, ast.Not, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
    ast.FloorDiv, ast.Div, ast.Mod, ast.BoolOp, ast.And, ast.Or, ast.Compare, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip


def check(path: Path) -> None:
    """InputError, with the archive's entry, for what is not a plain exported program."""
    import torch

    try:
        reader = torch._C.PyTorchFileReader(str(path))
        records = reader.get_all_records()
    except RuntimeError as error:
        raise InputError(f"{path} is damaged or no pt2 archive: {error}", field="model.path") from error
    if len({name.casefold() for name in records}) != len(records):
        _refuse(path, "its table", "has the same name twice")
    for name in records:
        if not RECORDS.fullmatch(name):
            _refuse(path, name, "is nothing that torch.export.save writes (no libraries, no objects)")
    for name in records:
        if not name.endswith(".json"):
            continue
        content = reader.get_record(name)
        if len(content) > MAX_JSON_BYTES:
            _refuse(path, name, f"has {len(content):,} bytes, allowed are {MAX_JSON_BYTES:,}")
        try:
            _check(json.loads(content), "", metadata=False)
        except _Forbidden as error:
            _refuse(path, name, str(error))
        except (ValueError, RecursionError) as error:
            _refuse(path, name, f"is damaged: {error!r:.200}")


def stored(path: Path) -> dict[str, int]:
    """How many numbers an archive that was checked keeps of each type, by PyTorch's names; nothing of it is run.
    InputError where what it says of its tensors can't be read.
    """
    import torch

    reader = torch._C.PyTorchFileReader(str(path))
    counts: Counter[str] = Counter()
    for name in reader.get_all_records():
        if not name.startswith(("data/weights/", "data/constants/")):
            continue
        if name.endswith("_config.json"):
            try:
                for entry in json.loads(reader.get_record(name))["config"].values():
                    meta = entry["tensor_meta"]
                    sizes = [int(size["as_int"]) for size in meta["sizes"]]
                    counts[DTYPES.get(meta["dtype"], "other")] += math.prod(sizes)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                _refuse(path, name, f"is damaged: {error!r:.200}")
        elif name.endswith(".pt"):
            tensors = torch.load(io.BytesIO(reader.get_record(name)), weights_only=True, map_location="cpu")
            for tensor in tensors.values() if isinstance(tensors, dict) else ():
                counts[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()
    return dict(counts)


class _Forbidden(Exception):
    """A string that the grammar does not have."""


def _refuse(path: Path, entry: str, reason: str) -> None:
    raise InputError(
        f"{path}: {entry} {reason}; only plain exported programs are read: write it with torch.export.save, "
        f"with standard operators and without custom objects, or export the model to ONNX",
        field="model.path",
    )


def _check(value: Any, key: str, metadata: bool) -> None:
    """Holds every string of the JSON against the grammar of its key. Raises _Forbidden."""
    if isinstance(value, dict):
        for name, part in value.items():
            if not metadata and not WORD.fullmatch(name):
                raise _Forbidden(f"has the key {name[:80]!r}, which is no name")
            _check(part, name, metadata or name == "metadata")
    elif isinstance(value, list):
        for part in value:
            _check(part, key, metadata)
    elif isinstance(value, str):
        if key == "expr_str":
            check_expression(value)
        elif key in ("target", "as_operator"):
            _check_target(value)
        elif key == "guards_code":
            _check_guard(value)
        elif key in ("in_spec", "out_spec"):
            _check_tree(value)
        # Operators take these as values (the equation of einsum); they become no source.
        elif not metadata and key not in ("as_string", "as_strings") and not WORD.fullmatch(value):
            raise _Forbidden(f"has {key} = {value[:80]!r}, which is no name")


def _check_target(target: str) -> None:
    match = TARGET.fullmatch(target)
    if match is None or match[2] in FILE_OPERATORS:
        raise _Forbidden(f"calls {target[:80]!r}, which is no operator of a model")


def check_expression(text: str) -> None:
    """Raises unless the text is a shape expression: integers, symbols, arithmetic, functions of the list."""
    if len(text) > MAX_EXPRESSION:
        raise _Forbidden(f"has an expression of {len(text):,} characters, allowed are {MAX_EXPRESSION:,}")
    if not text.isascii() or not _is_expression(_parsed(text), raised=False):
        raise _Forbidden(f"has the expression {text[:80]!r}, which is no arithmetic of shapes")


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _Forbidden(f"has {text[:80]!r}, which is no expression") from error


def _is_expression(node: ast.AST, raised: bool) -> bool:
    """Whether it is arithmetic; ``raised``: it lies in a power, and may have none itself."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (bool, int, float)) and abs(node.value) <= 2**64
    if isinstance(node, ast.Name):
        return node.id in CONSTANTS or SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.Call):
        return _is_call(node, raised)
    children = list(ast.iter_child_nodes(node))
    return isinstance(node, _OPERATORS) and all(_is_expression(child, raised) for child in children)


def _is_call(node: ast.Call, raised: bool) -> bool:
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        return False
    if any(k.arg not in ASSUMPTIONS or not isinstance(k.value, ast.Constant) for k in node.keywords):
        return False
    if any(not isinstance(k.value.value, (bool, int)) for k in node.keywords):  # type: ignore[attr-defined]
        return False
    name = node.func.id
    if name in ("Symbol", "Float") and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
        text = node.args[0].value
        form = SYMBOL if name == "Symbol" else re.compile(r"[+-]?\d{1,40}(\.\d{0,40})?(e[+-]?\d{1,3})?")
        return isinstance(text, str) and form.fullmatch(text) is not None
    if name in ("Pow", "PowByNatural"):
        if raised or len(node.args) != 2:
            return False
        try:
            exponent = ast.literal_eval(re.sub(r"^Integer\((-?\d+)\)$", r"\1", ast.unparse(node.args[1])))
        except ValueError:
            return False
        return (
            isinstance(exponent, int)
            and abs(exponent) <= MAX_EXPONENT
            and _is_expression(node.args[0], raised=True)
        )
    return all(_is_expression(argument, raised) for argument in node.args)


def _check_guard(text: str) -> None:
    """Guards are executed: comparisons of sizes of the inputs, and nothing else."""
    if not GUARD.fullmatch(text) or "**" in text or not _is_guard(_parsed(text)):
        raise _Forbidden(f"has the guard {text[:80]!r}, which is no comparison of shapes")


def _is_guard(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (bool, int, float))
    if isinstance(node, ast.Name):
        return node.id == "L" or node.id in CONSTANTS
    if isinstance(node, ast.Subscript):
        key = node.slice
        named = isinstance(key, ast.Constant) and isinstance(key.value, str) and WORD.fullmatch(key.value)
        return _is_guard(node.value) and (bool(named) or _is_guard(key))
    if isinstance(node, ast.Call):
        if node.keywords or not all(_is_guard(argument) for argument in node.args):
            return False
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in GUARD_METHODS and _is_guard(node.func.value)
        return isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS - {"Symbol", "Pow"}
    return isinstance(node, _OPERATORS) and all(_is_guard(child) for child in ast.iter_child_nodes(node))


def _check_tree(text: str) -> None:
    """The description of nested arguments: plain containers, whose other kinds import modules by name."""

    def node(tree: Any) -> None:
        if tree["type"] is not None and tree["type"] not in CONTAINERS:
            raise _Forbidden(f"has arguments of the type {str(tree['type'])[:80]!r}")
        context = tree["context"]
        keys = json.loads(context) if isinstance(context, str) else context
        for key in keys if isinstance(keys, list) else [keys]:
            named = isinstance(key, str) and WORD.fullmatch(key)
            if not (key is None or isinstance(key, int) or named):
                raise _Forbidden(f"has arguments of the name {str(key)[:80]!r}")
        for child in tree["children_spec"]:
            node(child)

    try:
        protocol, tree = json.loads(text)
        node(tree)
    except (TypeError, KeyError) as error:
        raise _Forbidden(f"has damaged arguments: {text[:80]!r}") from error
    if protocol != 1:
        raise _Forbidden(f"has arguments of protocol {protocol!r}")
