"""Test whether XLA can compile for a device: two small programs in a process of their own."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import msgspec

from xla_sweeps.doctor.check_result import answers_of
from xla_sweeps.schema.backend import Backend
from xla_sweeps.system import environment, programs
from xla_sweeps.system.devices import Device
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.trial.failures import first_line, signal_name

PROGRAMS = ("matmul", "convolution")
"""Programs that are compiled; the first also calls a function of libdevice."""


class Compiled(msgspec.Struct, frozen=True):
    """One program that was compiled and run, or its error."""

    program: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """A known cause of errors of XLA's compiler for GPUs."""

    expression: str
    what: str
    fix: str


_CAUSES = (
    Cause(
        r"does not support target 'sm_\w+'"
        r"|Value 'sm_\w+' is not defined for option 'gpu-name'"
        r"|'sm_\w+' is not a recognized processor"
        r"|ptxas does not support CC [\d.]+"
        r"|ptxas too old|Unsupported \.version"
        r"|CUDA_ERROR_INVALID_PTX|CUDA_ERROR_NO_BINARY_FOR_GPU|no kernel image is available",
        what="TensorFlow or its ptxas is too old for this GPU",
        fix="a newer TensorFlow (or tf-nightly, or NVIDIA's container) and a newer ptxas",
    ),
    Cause(
        r"No PTX compilation provider is available|ptxas not found"
        r"|Couldn't find a suitable version of ptxas|Couldn't invoke ptxas"
        r"|Can't find ptxas binary",
        what="ptxas is missing",
        fix=f"{how_to_install('gpu')}; or put the bin folder of a CUDA toolkit on PATH",
    ),
    Cause(
        r"libdevice not found|Can't find libdevice directory|libdevice is r",
        what="libdevice is missing",
        fix=f"{how_to_install('gpu')}; or XLA_FLAGS=--xla_gpu_cuda_data_dir=FOLDER of a CUDA "
        "toolkit, which has nvvm/libdevice",
    ),
    Cause(
        r"CUDA driver version is insufficient|compiled with an unsupported toolchain"
        r"|CUDA_ERROR_UNSUPPORTED_PTX_VERSION|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
        r"|driver's CUDA version is \S+ which is older|compiled for a different GPU\?",
        what="the NVIDIA driver is older than the CUDA toolkit",
        fix="update the driver: the CUDA version in the head of nvidia-smi must be at least that "
        "of TensorFlow's CUDA",
    ),
    Cause(
        r"Loaded runtime CuDNN library: \S+ but source was compiled|DNN library is not found"
        r"|CUDNN_STATUS_NOT_INITIALIZED|CUDNN_STATUS_VERSION_MISMATCH|'libcudnn",
        what="cuDNN is missing or too old",
        fix=f"{how_to_install('gpu')}; and no older cuDNN on LD_LIBRARY_PATH",
    ),
    Cause(
        r"cannot load lib[\w.]+|Cannot dlopen some GPU libraries",
        what="TensorFlow cannot load CUDA's libraries",
        fix=how_to_install("gpu"),
    ),
)
"""Causes in the order in which they are looked for: an old ptxas also complains of the driver."""


def known_cause(text: str) -> Cause | None:
    """The known cause that a text tells, or None."""
    return next((cause for cause in _CAUSES if re.search(cause.expression, text)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Result of one program.

    Attributes:
        cause: also of a program that compiled, if the log has one.
        line: the line that says so, or the first of the error; "" where nothing is wrong.
    """

    compiled: Compiled
    cause: Cause | None
    line: str


def check(device: Device, backend: Backend) -> tuple[Check, ...]:
    """Compile and run each of `PROGRAMS` with XLA on a device, by a backend's program."""
    variables = environment.child_environment(
        os.environ, device=device, backend=backend, extra=backend.logging(0)
    )
    done = programs.run(backend, "self_check", "compile", device.kind, environment=variables)
    ended = f"not compiled within {done.limit_s:g} s"
    if done.code is not None:
        ended = f"the process ended with {signal_name(done.code)}"
    told = {compiled.program: compiled for compiled in answers_of(done.output, Compiled)}
    return tuple(
        _explain(told.get(name, Compiled(program=name, error=ended)), done.log) for name in PROGRAMS
    )


def _explain(compiled: Compiled, log: str) -> Check:
    for text in (compiled.error, log):
        if cause := known_cause(text):
            line = next(line for line in text.splitlines() if known_cause(line) is cause)
            return Check(compiled=compiled, cause=cause, line=first_line(line))
    line = first_line(compiled.error) if compiled.error else ""
    return Check(compiled=compiled, cause=None, line=line)
