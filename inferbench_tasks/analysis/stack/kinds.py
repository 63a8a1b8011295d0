"""What a layer does, whatever its runtime calls it: the names of operators of ONNX, OpenVINO, PyTorch and TensorFlow by
kind.
"""

from __future__ import annotations

#: Only where and in which order values lie: of no account for what a model computes.
LAYOUT = "layout"
_NAMES = {
    "convolution": "Conv FusedConv NhwcFusedConv QLinearConv ConvInteger ConvTranspose Convolution GroupConvolution "
    "Deconvolution ConvolutionBackpropData Conv2D FusedConv2D DepthwiseConv2dNative FusedDepthwiseConv2dNative Conv3D "
    "Conv2DBackpropInput conv1d conv2d conv3d convolution conv_transpose2d mkldnn_convolution",
    "matrix product": "MatMul Gemm FusedGemm FusedMatMul MatMulInteger QLinearMatMul QGemm DynamicQuantizeMatMul "
    "MatMulIntegerToFloat MatMulNBits FullyConnected BatchMatMulV2 BatchMatMulV3 FusedBatchMatMulV2 Einsum "
    "linear addmm mm matmul bmm baddbmm einsum",
    "addition": "Add Sum QLinearAdd BiasAdd AddV2 AddN add",
    "product": "Mul Div Multiply Divide RealDiv mul div",
    "activation": "Relu Relu6 Clip Clamp Sigmoid HardSigmoid HardSwish HSwish LeakyRelu PRelu Elu Tanh Gelu FastGelu "
    "BiasGelu QuickGelu Swish Silu Mish Erf Softplus Selu relu relu6 clamp clamp_min hardtanh sigmoid hardsigmoid "
    "hardswish leaky_relu prelu elu tanh gelu silu mish erf",
    "normalisation": "BatchNormalization LayerNormalization SkipLayerNormalization SimplifiedLayerNormalization "
    "SkipSimplifiedLayerNormalization InstanceNormalization GroupNormalization MVN NormalizeL2 LRN RMS RMSNorm "
    "FusedBatchNorm FusedBatchNormV3 FusedBatchNormEx "
    "batch_norm layer_norm instance_norm group_norm native_layer_norm native_batch_norm rms_norm",
    "pooling": "MaxPool AveragePool AvgPool GlobalMaxPool Pooling "
    "QLinearAveragePool max_pool2d max_pool1d avg_pool2d adaptive_max_pool2d",
    "reduction": "GlobalAveragePool QLinearGlobalAveragePool AdaptiveAvgPool adaptive_avg_pool2d ReduceMean "
    "ReduceSum ReduceMax Reduce Mean mean sum amax",
    "softmax": "Softmax SoftMax LogSoftmax softmax log_softmax",
    "attention": "Attention MultiHeadAttention QAttention GroupQueryAttention ScaledDotProductAttention MHA "
    "scaled_dot_product_attention",
    "lookup": "Gather GatherElements GatherND GatherV2 EmbedLayerNormalization Embedding "
    "embedding gather index_select index",
    LAYOUT: "ReorderInput ReorderOutput Reorder Transpose Permute Reshape Flatten Squeeze Unsqueeze Expand Identity "
    "transpose permute reshape flatten view contiguous squeeze unsqueeze expand t to clone copy",
    "joining": "Concat ConcatV2 Split SplitV VariadicSplit Slice StridedSlice Pad PadV2 "
    "cat stack split chunk slice pad constant_pad_nd",
    "quantisation": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear FakeQuantize Cast Convert",
    "recurrence": "LSTM GRU RNN LSTMSequence GRUSequence LSTMCell DynamicQuantizeLSTM lstm gru",
}
#: TensorFlow's operators by oneDNN, which do what those without it do.
_BY_ONEDNN = ("_MklNative", "_Mkl")
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
#: What runtimes compute together with the layer before.
ABSORBED = frozenset({"addition", "product", "activation", "normalisation", "quantisation"})


def kind_of(type_: str) -> str:
    """The kind of a type of layer; the type itself where nobody knows it. PyTorch marks variants by underscores."""
    for prefix in _BY_ONEDNN:
        if type_.startswith(prefix):
            return kind_of(type_.removeprefix(prefix))
    return _KINDS.get(type_) or _KINDS.get(type_.strip("_")) or type_ or "unknown"
