"""The messages of XLA's `hlo.proto` and `xla_data.proto`, as far as they are read here.

JAX ships no messages of its own. TensorFlow does; they have the same fields, and more.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "xla_sweeps.hlo"

_TYPES = re.findall(
    r"\w+",
    "PRIMITIVE_TYPE_INVALID PRED S8 S16 S32 S64 U8 U16 U32 U64 F16 F32 F64 TUPLE OPAQUE_TYPE C64 "
    "BF16 TOKEN C128 F8E5M2 F8E4M3FN S4 U4 F8E4M3B11FNUZ F8E5M2FNUZ F8E4M3FNUZ S2 U2 F8E4M3 F8E3M4 "
    "S1 U1 F4E2M1FN F8E8M0FNU BUFFER",
)
"""Types of elements by their numbers."""

_FIELDS = {
    "Module": {"computations": (3, "Computation*"), "entry_computation_id": (6, "int64")},
    "Computation": {
        "name": (1, "string"),
        "instructions": (2, "Instruction*"),
        "id": (5, "int64"),
        "root_id": (6, "int64"),
    },
    "Instruction": {
        "name": (1, "string"),
        "opcode": (2, "string"),
        "shape": (3, "Shape"),
        "metadata": (7, "Metadata"),
        "literal": (8, "Literal"),
        "parameter_number": (9, "int64"),
        "tuple_index": (13, "int64"),
        "window": (15, "Window"),
        "convolution_dimension_numbers": (16, "ConvolutionNumbers"),
        "custom_call_target": (28, "string"),
        "dot_dimension_numbers": (30, "DotNumbers"),
        "id": (35, "int64"),
        "operand_ids": (36, "int64*"),
        "called_computation_ids": (38, "int64*"),
        "backend_config": (43, "bytes"),
        "feature_group_count": (50, "int64"),
        "comparison_direction": (63, "string"),
    },
    "Shape": {
        "element_type": (2, "PrimitiveType"),
        "dimensions": (3, "int64*"),
        "tuple_shapes": (4, "Shape*"),
    },
    "Literal": {
        "preds": (2, "bool*"),
        "s32s": (4, "int32*"),
        "s64s": (5, "int64*"),
        "u32s": (6, "uint32*"),
        "u64s": (7, "uint64*"),
    },
    "Metadata": {"op_type": (1, "string"), "op_name": (2, "string")},
    "Window": {"dimensions": (1, "WindowDimension*")},
    "WindowDimension": {"base_dilation": (6, "int64")},
    "ConvolutionNumbers": {
        "kernel_input_feature_dimension": (3, "int64"),
        "kernel_output_feature_dimension": (4, "int64"),
    },
    "DotNumbers": {"lhs_contracting_dimensions": (1, "int64*")},
}
"""The fields of each message: number and type, `*` for several."""


def _declared() -> Any:
    """The pool of the messages above."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="xla_sweeps/hlo.proto", package=_PACKAGE, syntax="proto3"
    )
    types = file.enum_type.add(name="PrimitiveType")
    for number, name in enumerate(_TYPES):
        types.value.add(name=name, number=number)
    for message, fields in _FIELDS.items():
        declared = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            if kind in _FIELDS or kind == types.name:
                of = field.TYPE_MESSAGE if kind in _FIELDS else field.TYPE_ENUM
                more = {"type_name": f".{_PACKAGE}.{kind}"}
            else:
                of, more = field.Type.Value(f"TYPE_{kind.upper()}"), {}
            declared.field.add(name=name, number=number, label=label, type=of, **more)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _declared()

_classes = {
    name: message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
    for name in ("Module", "Shape")
}

ModuleMessage: Any = _classes["Module"]
"""`HloModuleProto`."""

ShapeMessage: Any = _classes["Shape"]
"""`ShapeProto`."""

TYPES: Any = _POOL.FindEnumTypeByName(f"{_PACKAGE}.PrimitiveType")
"""`PrimitiveType`: types of elements."""
