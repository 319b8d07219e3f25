"""Declare messages of a protobuf by their fields, without the package that has them.

Those of XLA's `hlo.proto` and `xla_data.proto` have the fields that are read here. JAX ships no
messages of its own. TensorFlow does; they have the same fields, and more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "xla_sweeps"


def declared_pool(
    messages: str, enums: Mapping[str, Sequence[str]] | None = None, *, syntax: str = "proto3"
) -> Any:
    """A pool of these messages.

    Args:
        messages: as `Message { field = NUMBER: TYPE, … }`, a type with `*` for several.
        enums: names of the numbers from 0 on, by name.
        syntax: `proto2` tells whether a field is set.
    """
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="messages.proto", package=PACKAGE, syntax=syntax)
    kinds = dict[str, Any]()
    for enum, names in (enums or {}).items():
        types, kinds[enum] = file.enum_type.add(name=enum), field.TYPE_ENUM
        for number, name in enumerate(names):
            types.value.add(name=name, number=number)
    fields = dict(re.findall(r"(\w+) \{([^}]*)\}", messages))
    kinds |= dict.fromkeys(fields, field.TYPE_MESSAGE)
    for message, given in fields.items():
        declared = file.message_type.add(name=message)
        for name, number, kind, several in re.findall(r"(\w+) = (\d+): (\w+)(\*?)", given):
            declared.field.add(
                name=name,
                number=int(number),
                label=field.LABEL_REPEATED if several else field.LABEL_OPTIONAL,
                type=kinds.get(kind) or field.Type.Value(f"TYPE_{kind.upper()}"),
                type_name=f".{PACKAGE}.{kind}" if kind in kinds else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def message_class(pool: Any, name: str) -> Any:
    """The class of a declared message."""
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


_TYPES = re.findall(
    r"\w+",
    "PRIMITIVE_TYPE_INVALID PRED S8 S16 S32 S64 U8 U16 U32 U64 F16 F32 F64 TUPLE OPAQUE_TYPE C64 "
    "BF16 TOKEN C128 F8E5M2 F8E4M3FN S4 U4 F8E4M3B11FNUZ F8E5M2FNUZ F8E4M3FNUZ S2 U2 F8E4M3 F8E3M4 "
    "S1 U1 F4E2M1FN F8E8M0FNU BUFFER",
)
"""Types of elements by their numbers."""

_MESSAGES = """
Program { hlo_module = 1: Module }
Module { computations = 3: Computation*, entry_computation_id = 6: int64,
  stack_frame_index = 17: StackFrames }
StackFrames { file_names = 1: string*, file_locations = 3: FileLocation*,
  stack_frames = 4: StackFrame* }
FileLocation { file_name_id = 1: int32, line = 3: int32 }
StackFrame { file_location_id = 1: int32, parent_frame_id = 2: int32 }
Computation { name = 1: string, instructions = 2: Instruction*, id = 5: int64, root_id = 6: int64
  }
Instruction { name = 1: string, opcode = 2: string, shape = 3: Shape, metadata = 7: Metadata,
  literal = 8: Literal, parameter_number = 9: int64, tuple_index = 13: int64, window = 15: Window,
  convolution_dimension_numbers = 16: ConvolutionNumbers, custom_call_target = 28: string,
  dot_dimension_numbers = 30: DotNumbers, id = 35: int64, operand_ids = 36: int64*,
  called_computation_ids = 38: int64*, backend_config = 43: bytes,
  feature_group_count = 50: int64, comparison_direction = 63: string }
Shape { element_type = 2: PrimitiveType, dimensions = 3: int64*, tuple_shapes = 4: Shape* }
Literal { preds = 2: bool*, s32s = 4: int32*, s64s = 5: int64*, u32s = 6: uint32*,
  u64s = 7: uint64* }
Metadata { op_type = 1: string, op_name = 2: string, stack_frame_id = 15: int32 }
Window { dimensions = 1: WindowDimension* }
WindowDimension { base_dilation = 6: int64 }
ConvolutionNumbers { kernel_input_feature_dimension = 3: int64,
  kernel_output_feature_dimension = 4: int64 }
DotNumbers { lhs_contracting_dimensions = 1: int64* }
"""

_POOL = declared_pool(_MESSAGES, {"PrimitiveType": _TYPES})

ModuleMessage: Any = message_class(_POOL, "Module")
"""`HloModuleProto`."""

ProgramMessage: Any = message_class(_POOL, "Program")
"""`HloProto`."""

TYPES: Any = _POOL.FindEnumTypeByName(f"{PACKAGE}.PrimitiveType")
"""`PrimitiveType`: types of elements."""
