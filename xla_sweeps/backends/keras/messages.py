"""Declare messages of a protobuf by their fields, without the package that has them."""

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
