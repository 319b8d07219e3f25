"""The messages of XLA's programs, against those of TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest
from hlo_modules import dot, message, product

from xla_sweeps.backends.keras.hlo import Module, count_macs
from xla_sweeps.backends.keras.messages import TYPES, ProgramMessage
from xla_sweeps.backends.keras.xplane import SpaceMessage


def test_a_serialized_program_is_read_without_a_framework() -> None:
    content = message(main=product(dot, "f32[4,10]", "f32[4,3]", "f32[3,10]"))
    assert count_macs(Module.parse(content.SerializeToString())).total == 4 * 3 * 10


@pytest.mark.tf
def test_every_field_has_the_number_and_the_type_that_tensorflow_gives_it() -> None:
    from tensorflow.compiler.xla.service.hlo_pb2 import HloProto
    from tensorflow.compiler.xla.xla_data_pb2 import PrimitiveType
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

    assert len(_compared(ProgramMessage.DESCRIPTOR, HloProto.DESCRIPTOR)) == 14
    assert len(_compared(SpaceMessage.DESCRIPTOR, XSpace.DESCRIPTOR)) == 9
    types = {value.name: value.number for value in TYPES.values}
    assert types == {**types, **dict(PrimitiveType.items())}


def _compared(ours: Any, theirs: Any) -> set[str]:
    """Names of the messages that were compared, those of fields too."""
    todo, seen = [(ours, theirs)], set()
    while todo:
        ours, theirs = todo.pop()
        seen.add(ours.name)
        for field in ours.fields:
            other = theirs.fields_by_name[field.name]
            assert (field.number, field.type) == (other.number, other.type), field.full_name
            assert field.is_repeated == other.is_repeated, field.full_name
            if field.message_type is not None and field.message_type.name not in seen:
                todo.append((field.message_type, other.message_type))
    return seen
