"""Advice on what to use instead of operations without a kernel of XLA."""

from __future__ import annotations

import fnmatch

_ADVICE = {
    "CombinedNonMaxSuppression": (
        "tf.image.non_max_suppression_padded for each class, or non-max suppression outside "
        "jit_compile"
    ),
    "NonMaxSuppression*": "tf.image.non_max_suppression or non_max_suppression_padded",
    "CropAndResize*": "tf.image.resize (bilinear) of slices of fixed size, or tf.gather_nd",
    "ResizeBicubic*": "tf.image.resize(method='bilinear'), or resize before the model",
    "ResizeArea": "tf.nn.avg_pool2d, or tf.image.resize(method='bilinear')",
    "ScaleAndTranslate*": "tf.image.resize(method='bilinear', antialias=False)",
    "MaxPoolWithArgmax": (
        "tf.nn.max_pool2d, and tf.argmax over tf.image.extract_patches for the positions"
    ),
    "Fractional*Pool": "tf.nn.max_pool2d or tf.nn.avg_pool2d",
    "Dilation2D*": "tf.image.extract_patches, an addition and tf.reduce_max",
    "ExtractGlimpse*": "tf.slice, or tf.image.extract_patches",
    "ImageProjectiveTransform*": "augment in tf.data, or tf.gather_nd with computed coordinates",
    "*Print*": "remove tf.print, or print outside the compiled call",
    "StringFormat": "remove tf.print and formatted messages from the compiled call",
    "*PyFunc*": "TensorFlow operations, or the Python code before or after the compiled call",
    "*Table*": "tf.gather from a constant, or the lookup in tf.data",
    "*String*": "texts in tf.data; the model takes numbers",
    "Decode*": "decode in tf.data; the model takes tensors of pixels",
    "Encode*": "encode outside the compiled call",
    "*Ragged*": "padded tensors with a mask",
    "Sparse*": "dense tensors with a mask",
    "Dense*SetOperation": "dense comparisons of all pairs, outside jit_compile if large",
    "Segment*": "tf.math.unsorted_segment_*, with a fixed number of segments",
    "Quantize*": "tf.quantization.fake_quant_*",
    "HistogramFixedWidth": "tf.math.bincount",
    "*Dataset*": "the data set outside the compiled call",
    "Iterator*": "the iterator outside the compiled call",
    "TensorArray*": "tf.TensorArray of fixed size",
    "VarHandleOp": "variables that are made when the model is built",
    "*Summary*": "summaries outside the compiled call",
}
"""Globs of operations, the first that matches counts."""

OTHERWISE = "another operation, or this part outside jit_compile"


def advice(op: str) -> str:
    """Advice on what to use instead of an operation without a kernel."""
    fitting = (_ADVICE[pattern] for pattern in _ADVICE if fnmatch.fnmatchcase(op, pattern))
    return next(fitting, OTHERWISE)
