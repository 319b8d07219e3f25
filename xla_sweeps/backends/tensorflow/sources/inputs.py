"""Read the inputs that a model declares, and nest batches as the model expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.trial import InputSpec

_IMAGE_RANK = 4
_HEIGHT_AND_WIDTH = (1, 2)


def from_specs(
    specs: Mapping[str, Any], *, resolution: int | None, where: str
) -> tuple[InputSpec, ...]:
    """Inputs from declared shapes, batch first; a free height and width become the resolution.

    Args:
        specs: objects with `shape` and `dtype`, by name.
        resolution: px, or None.
        where: the model's name in errors.

    Raises:
        XlaSweepsError: a size is free and not given.
    """
    names = list(specs) if len(specs) > 1 else [""]
    whole = ",".join(_written(name, spec) for name, spec in zip(names, specs.values(), strict=True))
    fix = f"give every input, with your sizes: 'input_spec=[{whole}]'"
    return tuple(
        _from_spec(name, spec, resolution=resolution, where=where, fix=fix)
        for name, spec in zip(names, specs.values(), strict=True)
    )


def _written(name: str, spec: Any) -> str:
    """An input as an entry of `input_spec`; a size that is free is filled in."""
    shape = tf.TensorShape(spec.shape)
    sizes = shape.as_list()[1:] if shape.rank else [224, 224, 3]
    common = 224 if len(sizes) == _IMAGE_RANK - 1 else 128
    text = ",".join(str(common if size is None else size) for size in sizes)
    named = f"name:{name}," if name else ""
    return f"{{{named}shape:[{text}],dtype:{tf.as_dtype(spec.dtype).name}}}"


def _from_spec(name: str, spec: Any, *, resolution: int | None, where: str, fix: str) -> InputSpec:
    shape = tf.TensorShape(spec.shape)
    dtype = tf.as_dtype(spec.dtype)
    if not shape.rank:
        raise XlaSweepsError(f"{where}: an input has no known shape; {fix}")
    shape = shape.as_list()
    free = [axis for axis, size in enumerate(shape) if size is None and axis]
    sized = list(shape)
    if resolution is not None and len(shape) == _IMAGE_RANK:
        if any(sized[axis] not in (None, resolution) for axis in _HEIGHT_AND_WIDTH):
            raise XlaSweepsError(
                f"{where}: resolution={resolution}, but its input is fixed at "
                f"{sized[1]} x {sized[2]} px; omit resolution"
            )
        for axis in _HEIGHT_AND_WIDTH:
            sized[axis] = resolution
        free = [axis for axis in free if sized[axis] is None]
    if free:
        shown = "(" + ", ".join("free" if size is None else str(size) for size in shape[1:]) + ")"
        fix = f"give resolution=224, or {fix}" if len(shape) == _IMAGE_RANK else fix
        raise XlaSweepsError(f"{where}: the input {name or 'image'} {shown} has free sizes; {fix}")
    high = 2.0 if dtype in (tf.bool, tf.int8) else 255.0
    return InputSpec(
        shape=tuple(int(size) for size in sized[1:]), dtype=dtype.name, high=high, name=name
    )


def bind(batch: Any, structure: Any) -> Any:
    """A batch nested like `structure`."""
    tensors = tf.nest.flatten(batch)
    if not tf.nest.is_nested(structure):
        return tensors[0]
    return tf.nest.pack_sequence_as(structure, tensors)
