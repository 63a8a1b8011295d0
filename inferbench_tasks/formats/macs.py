"""Multiply-adds of ONNX operators, and which operators have none: what is in neither table is unknown, never 0.

Only what multiplies matrices is counted (convolution, matrix product, recurrent cells, attention, linear models).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.errors import InputError

Shape = tuple[int, ...]
#: Operators of ONNX itself are named by themselves, the others as ``domain.operator``.
_OWN_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Value:
    """The shape and the size in bytes of one tensor."""

    shape: Shape
    nbytes: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)


Values = dict[str, Value]
Count = Callable[[Any, Values], int]


class UncountableError(InputError):
    """A known operator in a form whose multiply-adds can't be told."""


def operator(node: Any) -> str:
    """``MatMul``, ``com.microsoft.FusedMatMul``: an operator's name with its domain, unless that is ONNX's own."""
    return str(node.op_type) if node.domain in _OWN_DOMAINS else f"{node.domain}.{node.op_type}"


def attribute(node: Any, name: str, default: Any) -> Any:
    """A node's attribute, or the default."""
    from onnx import helper

    for given in node.attribute:
        if given.name == name:
            return helper.get_attribute_value(given)
    return default


def bodies(node: Any) -> list[Any]:
    """The graphs inside of an operator (If, Loop, Scan, SequenceMap)."""
    graphs = [given.g for given in node.attribute if given.HasField("g")]
    return graphs + [graph for given in node.attribute for graph in given.graphs]


def all_nodes(graph: Any) -> list[Any]:
    """A graph's nodes, those of its operators' bodies too."""
    nodes = list(graph.node)
    for node in graph.node:
        for body in bodies(node):
            nodes += all_nodes(body)
    return nodes


def macs(node: Any, values: Values) -> int | None:
    """Multiply-adds of a node; None where they are not known.

    An operator with a body has none if nothing in it has: how often a body runs is only known afterwards.
    """
    inner = [n for body in bodies(node) for n in all_nodes(body)]
    if inner:
        return 0 if all(bodies(n) or operator(n) in WITHOUT for n in inner) else None
    name = operator(node)
    count = MACS.get(name)
    if count is None:
        return 0 if name in WITHOUT else None
    try:
        return count(node, values)
    except (UncountableError, KeyError, IndexError, ValueError, StopIteration):
        return None  # an optional input or output that this form of the operator is told by


def has_input(node: Any, index: int) -> bool:
    """Whether an optional input is given."""
    return len(node.input) > index and bool(node.input[index])


def _in(node: Any, values: Values, index: int) -> Value:
    return values[node.input[index]]


def _out(node: Any, values: Values) -> Value:
    return next(values[name] for name in node.output if name)


def _conv(weight: int) -> Count:
    """Each output value sums over its group's input channels and the kernel."""
    return lambda node, values: _out(node, values).count * math.prod(_in(node, values, weight).shape[1:])


def _conv_transpose(node: Any, values: Values) -> int:
    """Each input value is spread over its group's output channels and the kernel."""
    return _in(node, values, 0).count * math.prod(_in(node, values, 1).shape[1:])


def _matmul(node: Any, values: Values) -> int:
    return _out(node, values).count * _in(node, values, 0).shape[-1]


def _fused_matmul(node: Any, values: Values) -> int:
    if attribute(node, "transBatchA", 0) or attribute(node, "transBatchB", 0):
        raise UncountableError("its batch axes are moved")
    return _out(node, values).count * _in(node, values, 0).shape[-2 if attribute(node, "transA", 0) else -1]


def _gemm(node: Any, values: Values) -> int:
    a = _in(node, values, 0).shape
    return _out(node, values).count * (a[0] if attribute(node, "transA", 0) else a[1])


def _recurrent(gates: int) -> Count:
    def count(node: Any, values: Values) -> int:
        steps, batch = _in(node, values, 0).shape[:2]  # layout only swaps them
        directions, rows, features = _in(node, values, 1).shape
        hidden = rows // gates
        return steps * batch * directions * gates * hidden * (features + hidden)

    return count


def _quantised_lstm(node: Any, values: Values) -> int:
    """Its weights are transposed: directions x features x 4 hidden."""
    steps, batch = _in(node, values, 0).shape[:2]
    directions, features, rows = _in(node, values, 1).shape
    return steps * batch * directions * rows * (features + rows // 4)


def _einsum(node: Any, values: Values) -> int:
    equation = attribute(node, "equation", b"").decode().replace(" ", "")
    operands = equation.split("->")[0].split(",")
    if len(operands) < 2:
        return 0
    if "..." in equation:
        raise UncountableError(f"Einsum {equation!r} can't be counted")
    sizes = {
        letter: size
        for index, letters in enumerate(operands)
        for letter, size in zip(letters, _in(node, values, index).shape, strict=True)
    }
    return math.prod(sizes.values())


def _attention(past: int) -> Count:
    """Scores and weighted sum of a fused attention over separate query, key and value.

    Values are ``batch x sequence x hidden`` or ``batch x heads x sequence x head``; the scores take (elements of the
    query) x (length of the key), the sum (elements of the output) x (length of the key). ``past``: the input with
    earlier keys, ``batch x heads x length x head``.
    """

    def count(node: Any, values: Values) -> int:
        key = _in(node, values, 1).shape
        if not has_input(node, 2) or len(key) > 4:
            raise UncountableError("its keys and values are packed")
        length = key[-2] + (_in(node, values, past).shape[-2] if has_input(node, past) else 0)
        return (_in(node, values, 0).count + values[node.output[0]].count) * length

    return count


def _projected_attention(past: int) -> Count:
    """ONNX Runtime's own Attention: the projections of query, key and value too."""

    def count(node: Any, values: Values) -> int:
        batch, steps, _ = _in(node, values, 0).shape
        features, columns = _in(node, values, 1).shape
        sizes = attribute(node, "qkv_hidden_sizes", None) or [columns // 3] * 3
        length = steps + (_in(node, values, past).shape[-2] if has_input(node, past) else 0)
        rows = batch * steps
        return int(rows * (features * columns + length * (sizes[0] + sizes[2])))

    return count


def _linear_model(node: Any, values: Values) -> int:
    """Each row is multiplied with all coefficients."""
    shape = _in(node, values, 0).shape
    return (shape[0] if len(shape) > 1 else 1) * len(attribute(node, "coefficients", ()))


MACS: dict[str, Count] = {
    "Conv": _conv(1), "ConvInteger": _conv(1), "QLinearConv": _conv(3), "ConvTranspose": _conv_transpose,
    "MatMul": _matmul, "MatMulInteger": _matmul, "QLinearMatMul": _matmul, "Gemm": _gemm,
    "LSTM": _recurrent(4), "GRU": _recurrent(3), "RNN": _recurrent(1), "Einsum": _einsum, "Attention": _attention(4),
    "ai.onnx.ml.LinearClassifier": _linear_model, "ai.onnx.ml.LinearRegressor": _linear_model,
    "com.microsoft.FusedConv": _conv(1), "com.microsoft.QLinearConv": _conv(3),
    "com.microsoft.FusedMatMul": _fused_matmul, "com.microsoft.MatMulIntegerToFloat": _matmul,
    "com.microsoft.DynamicQuantizeMatMul": _matmul, "com.microsoft.FusedGemm": _gemm, "com.microsoft.QGemm": _gemm,
    "com.microsoft.DynamicQuantizeLSTM": _quantised_lstm, "com.microsoft.MultiHeadAttention": _attention(6),
    "com.microsoft.Attention": _projected_attention(4), "com.microsoft.QAttention": _projected_attention(8),
}  # fmt: skip

_ONNX = """Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli BitCast
BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu CenterCropPad Clip Col2Im
Compress Concat ConcatFromSequence Constant ConstantOfShape Cos Cosh CumProd CumSum DepthToSpace DequantizeLinear Div
Dropout DynamicQuantizeLinear Elu Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Gelu
GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow
HannWindow HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu
Less LessOrEqual Log LogSoftmax LpNormalization LpPool Max MaxPool MaxRoiPool MaxUnpool Mean
MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Multinomial Neg NegativeLogLikelihoodLoss
NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement OptionalHasElement Or PRelu Pad Pow QuantizeLinear
RMSNormalization RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2
ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare RegexFullMatch Relu
Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round Scatter ScatterElements ScatterND Selu SequenceAt
SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Shrink Sigmoid Sign
SimplifiedLayerNormalization Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split
SplitToSequence Sqrt Squeeze StringConcat StringNormalizer StringSplit Sub Sum Swish Tan Tanh TensorScatter
TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor"""
_ML = """ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder
Normalizer OneHotEncoder Scaler TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor ZipMap"""
_MICROSOFT = """BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu BitmaskDropout DequantizeLinear
EmbedLayerNormalization ExpandDims FastGelu GatherND Gelu GridSample GroupNorm IsAllFinite MaxpoolWithMask MulInteger
MurmurHash3 NhwcMaxPool Pad QEmbedLayerNormalization QLinearAdd QLinearAveragePool QLinearConcat
QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid QLinearSoftmax QLinearWhere
QuantizeLinear QuickGelu Range ReduceSumInteger RotaryEmbedding ScaledSiLU SkipGroupNorm SkipLayerNormalization
SkipSimplifiedLayerNormalization Tokenizer Trilu Unique"""

#: Operators that multiply no matrices.
WITHOUT = frozenset(
    _ONNX.split()
    + [f"ai.onnx.ml.{name}" for name in _ML.split()]
    + [f"com.microsoft.{name}" for name in _MICROSOFT.split()]
)
