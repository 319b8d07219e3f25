"""Declare messages of a protobuf by their fields, without the package that has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "xla_sweeps"

Fields = Mapping[str, Mapping[str, tuple[int, str]]]
"""The fields of each message: number and type, `*` for several."""


def declared_pool(
    messages: Fields, enums: Mapping[str, Sequence[str]] | None = None, *, syntax: str = "proto3"
) -> Any:
    """A pool of these messages.

    Args:
        messages: by name.
        enums: names of the numbers from 0 on, by name.
        syntax: `proto2` tells whether a field is set.
    """
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="messages.proto", package=PACKAGE, syntax=syntax)
    for enum, names in (enums or {}).items():
        types = file.enum_type.add(name=enum)
        for number, name in enumerate(names):
            types.value.add(name=name, number=number)
    for message, fields in messages.items():
        declared = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            if kind in messages or kind in (enums or {}):
                of = field.TYPE_MESSAGE if kind in messages else field.TYPE_ENUM
                more = {"type_name": f".{PACKAGE}.{kind}"}
            else:
                of, more = field.Type.Value(f"TYPE_{kind.upper()}"), {}
            declared.field.add(name=name, number=number, label=label, type=of, **more)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def message_class(pool: Any, name: str) -> Any:
    """The class of a declared message."""
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
