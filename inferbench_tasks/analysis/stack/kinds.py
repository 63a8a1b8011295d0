"""What a layer does, whatever its runtime calls it: ONNX's, OpenVINO's and PyTorch's names of operators by kind."""

from __future__ import annotations

#: Only where and in which order values lie: of no account for what a model computes.
LAYOUT = "layout"
_NAMES = {
    "convolution": "Conv FusedConv NhwcFusedConv QLinearConv ConvInteger ConvTranspose Convolution GroupConvolution "
    "Deconvolution ConvolutionBackpropData conv1d conv2d conv3d convolution conv_transpose2d mkldnn_convolution",
    "matrix product": "MatMul Gemm FusedGemm FusedMatMul MatMulInteger QLinearMatMul QGemm DynamicQuantizeMatMul "
    "MatMulIntegerToFloat MatMulNBits FullyConnected linear addmm mm matmul bmm baddbmm einsum",
    "addition": "Add Sum QLinearAdd BiasAdd add",
    "product": "Mul Div Multiply Divide mul div",
    "activation": "Relu Relu6 Clip Clamp Sigmoid HardSigmoid HardSwish HSwish LeakyRelu PRelu Elu Tanh Gelu FastGelu "
    "BiasGelu QuickGelu Swish Silu Mish Erf Softplus Selu relu relu6 clamp clamp_min hardtanh sigmoid hardsigmoid "
    "hardswish leaky_relu prelu elu tanh gelu silu mish erf",
    "normalisation": "BatchNormalization LayerNormalization SkipLayerNormalization SimplifiedLayerNormalization "
    "SkipSimplifiedLayerNormalization InstanceNormalization GroupNormalization MVN NormalizeL2 LRN RMS RMSNorm "
    "batch_norm layer_norm instance_norm group_norm native_layer_norm native_batch_norm rms_norm",
    "pooling": "MaxPool AveragePool AvgPool GlobalMaxPool Pooling "
    "QLinearAveragePool max_pool2d max_pool1d avg_pool2d adaptive_max_pool2d",
    "reduction": "GlobalAveragePool QLinearGlobalAveragePool AdaptiveAvgPool adaptive_avg_pool2d ReduceMean "
    "ReduceSum ReduceMax Reduce mean sum amax",
    "softmax": "Softmax SoftMax LogSoftmax softmax log_softmax",
    "attention": "Attention MultiHeadAttention QAttention GroupQueryAttention ScaledDotProductAttention MHA "
    "scaled_dot_product_attention",
    "lookup": "Gather GatherElements GatherND EmbedLayerNormalization Embedding embedding gather index_select index",
    LAYOUT: "ReorderInput ReorderOutput Reorder Transpose Permute Reshape Flatten Squeeze Unsqueeze Expand Identity "
    "transpose permute reshape flatten view contiguous squeeze unsqueeze expand t to clone copy",
    "joining": "Concat Split VariadicSplit Slice StridedSlice Pad cat stack split chunk slice pad constant_pad_nd",
    "quantisation": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear FakeQuantize Cast Convert",
    "recurrence": "LSTM GRU RNN LSTMSequence GRUSequence LSTMCell DynamicQuantizeLSTM lstm gru",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
#: What runtimes compute together with the layer before.
ABSORBED = frozenset({"addition", "product", "activation", "normalisation", "quantisation"})


def kind_of(type_: str) -> str:
    """The kind of a type of layer; the type itself where nobody knows it. PyTorch marks variants by underscores."""
    return _KINDS.get(type_) or _KINDS.get(type_.strip("_")) or type_ or "unknown"
