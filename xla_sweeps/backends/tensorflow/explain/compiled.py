"""Write the program that a profiler found compiled as HLO text, without values and layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def hlo_text(content: bytes) -> str:
    """The text of an optimized program.

    XLA prints none without compiling again. Uses the protobuf of TensorFlow's own package, tried on
    2.21.0.

    Args:
        content: an `HloProto`.
    """
    from tensorflow.compiler.xla.service.hlo_pb2 import HloProto

    module = HloProto.FromString(content).hlo_module
    names = {item.id: item.name for item in module.computations}
    lines = [f"HloModule {module.name}"]
    for computation in module.computations:
        entry = "ENTRY " if computation.id == module.entry_computation_id else ""
        lines += ["", f"{entry}%{computation.name} {{"]
        operands = {item.id: item.name for item in computation.instructions}
        for item in computation.instructions:
            root = "ROOT " if item.id == computation.root_id else ""
            lines.append(f"  {root}{', '.join(_parts(item, operands, names))}")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _parts(item: Any, operands: dict[int, str], names: dict[int, str]) -> Iterator[str]:
    arguments = ", ".join(f"%{operands[number]}" for number in item.operand_ids)
    if item.opcode == "parameter":
        arguments = str(item.parameter_number)
    yield f"%{item.name} = {_type(item.shape)} {item.opcode}({arguments})"
    called = [f"%{names[number]}" for number in item.called_computation_ids]
    if item.opcode == "while":
        yield f"body={called[0]}"
        yield f"condition={called[1]}"
    elif item.opcode == "conditional":
        yield f"branch_computations={{{', '.join(called)}}}"
    elif called:
        yield f"{'calls' if item.opcode == 'fusion' else 'to_apply'}={called[0]}"
    if item.opcode == "convolution":
        labels = item.convolution_dimension_numbers
        size = 2 + len(labels.kernel_spatial_dimensions)
        kernel = ["0"] * size
        kernel[labels.kernel_input_feature_dimension] = "i"
        kernel[labels.kernel_output_feature_dimension] = "o"
        yield f"dim_labels=b_{''.join(kernel)}->b"
        yield f"feature_group_count={item.feature_group_count}"
    if item.custom_call_target:
        yield f'custom_call_target="{item.custom_call_target}"'
    if item.fusion_kind:
        yield f"kind={item.fusion_kind}"
    if item.metadata.op_name:
        kind = f'op_type="{item.metadata.op_type}" ' if item.metadata.op_type else ""
        yield f'metadata={{{kind}op_name="{item.metadata.op_name}"}}'
    if item.backend_config:
        yield f"backend_config={item.backend_config.decode(errors='replace')}"


def _type(shape: Any) -> str:
    from tensorflow.compiler.xla.xla_data_pb2 import PrimitiveType

    if shape.element_type == PrimitiveType.TUPLE:
        return f"({', '.join(map(_type, shape.tuple_shapes))})"
    sizes = ",".join(map(str, shape.dimensions))
    return f"{PrimitiveType.Name(shape.element_type).lower()}[{sizes}]"
