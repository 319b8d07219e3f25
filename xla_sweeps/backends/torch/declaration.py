"""The declaration of PyTorch: what is known of it without loading it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xla_sweeps.schema.backend import Backend, KnownFailure
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.trial import Precision, Trial
from xla_sweeps.system.process import python_command


def _environment(trial: Trial, given: Mapping[str, str]) -> dict[str, str]:
    """The device: without it, Keras takes a GPU that PyTorch sees."""
    return {"KERAS_TORCH_DEVICE": "cuda" if trial.on_accelerator else "cpu"}


def _cache(folder: str, given: Mapping[str, str]) -> dict[str, str]:
    """The caches of inductor and of Triton."""
    return {
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0",
        "TORCHINDUCTOR_CACHE_DIR": folder,
        "TRITON_CACHE_DIR": f"{folder}/triton",
    }


_FAILURES = (
    KnownFailure(
        re.compile(r"InvalidCxxCompiler|No working C\+\+ compiler"),
        Status.COMPILE_ERROR,
        "torch.compile needs a C++ compiler on a CPU, and there is none",
        "install g++",
    ),
    KnownFailure(
        re.compile(r"error above occurred when calling torch\.export\.export"),
        Status.TRACE_ERROR,
        "torch cannot capture the model as one graph",
        "take Python's control flow on values out of it (torch.where, keras.ops)",
    ),
    KnownFailure(
        re.compile(r"element 0 of tensors does not require grad"),
        Status.RUN_ERROR,
        "the model's forward takes gradients, which needs a graph of them",
        "modes run in torch.inference_mode(), without one: such a model is not measured",
    ),
)

BACKEND = Backend(
    name="torch",
    title="PyTorch",
    programs={
        name: python_command(f"xla_sweeps.backends.torch.{name}") for name in ("worker", "plants")
    },
    explains=True,
    packages={name: (name,) for name in ("torch", "keras", "keras-hub")},
    for_gpu="torch",
    identity=("torch", "keras"),
    shown={"torch": "PyTorch", "keras": "Keras"},
    tracked={"torch": "torch", "keras_version": "keras"},
    variables={
        "KERAS_BACKEND": "torch",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",  # compile times are those of a first start
    },
    environment=_environment,
    cache=_cache,
    prefixes=("TORCH", "TORCHINDUCTOR", "PYTORCH", "TRITON"),
    caches=("KERAS_HOME", "TORCHINDUCTOR_CACHE_DIR", "TORCH_HOME", "TRITON_CACHE_DIR"),
    harmless=(  # a container's, and those of building extensions
        r"TORCH_(?:CUDA_ARCH_LIST|NVCC_FLAGS|SHOW_CPP_STACKTRACES)"
        r"|PYTORCH_(?:BUILD_\w+|VERSION|HOME)"
    ),
    failures=_FAILURES,
    libraries=("keras", "keras_hub", "examples", "local"),
    lacks={Precision.MIXED_FLOAT16: "its loss scaling is not supported"},
)
