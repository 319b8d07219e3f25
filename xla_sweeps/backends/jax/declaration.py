"""The declaration of JAX: what is known of it without loading it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xla_sweeps.schema.backend import Backend, KnownFailure
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.trial import Precision, Trial
from xla_sweeps.system.process import python_command


def _environment(trial: Trial, given: Mapping[str, str]) -> dict[str, str]:
    """The platforms, the first of which it takes; references are computed on the CPU."""
    return {"JAX_PLATFORMS": "cuda,cpu" if trial.on_accelerator else "cpu"}


def _cache(folder: str, given: Mapping[str, str]) -> dict[str, str]:
    """JAX's persistent cache, of each program however small."""
    return {
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


_FAILURES = (
    KnownFailure(
        re.compile(r"TracerBoolConversionError|ConcretizationTypeError|NonConcreteBooleanIndex"),
        Status.DYNAMIC_SHAPE,
        "the model decides by computed values, which jax.jit does not know",
        "use jax.lax.cond, jnp.where, or their like in keras.ops, or a fixed shape",
    ),
    KnownFailure(
        re.compile(r"TracerArrayConversionError"),
        Status.TRACE_ERROR,
        "the model turns a tensor into a NumPy array inside its call",
        "use jax.numpy or keras.ops in place of numpy",
    ),
    KnownFailure(
        re.compile(r"Buffer has been deleted or donated"),
        Status.RUN_ERROR,
        "the function donates its inputs, so that no second call has them",
        "remove donate_argnums",
    ),
)

BACKEND = Backend(
    name="jax",
    title="JAX",
    programs={
        name: python_command(f"xla_sweeps.backends.jax.{name}") for name in ("worker", "plants")
    },
    explains=True,
    explains_with={"google.protobuf": "protobuf"},
    packages={name: (name,) for name in ("jax", "jaxlib", "keras", "keras-hub")},
    for_gpu="jax[cuda13]",
    identity=("jax", "jaxlib", "keras"),
    shown={"jax": "JAX", "keras": "Keras"},
    tracked={"jax": "jax", "keras_version": "keras"},
    variables={
        "KERAS_BACKEND": "jax",
        "JAX_ENABLE_COMPILATION_CACHE": "false",  # compile times are those of a first start
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    },
    environment=_environment,
    cache=_cache,
    prefixes=("JAX",),
    caches=("KERAS_HOME", "JAX_COMPILATION_CACHE_DIR"),
    harmless="JAX_PLATFORMS|JAX_LOGGING_LEVEL",
    failures=_FAILURES,
    libraries=("keras", "keras_hub", "examples", "local"),
    lacks={Precision.MIXED_FLOAT16: "its loss scaling is not supported"},
)
