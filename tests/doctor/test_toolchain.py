"""Compilation by XLA for a device, and the meaning of its errors on GPUs.

The texts are copied from public threads, which are named beside them, since no test here has a GPU.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import pytest

from xla_sweeps.doctor import toolchain
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.system import programs
from xla_sweeps.system.devices import Device

CPU = Device(kind="cpu", index=0, name="cpu")

OLD_TENSORFLOW = "TensorFlow or its ptxas is too old for this GPU"
NO_PTXAS = "ptxas is missing"
NO_LIBDEVICE = "libdevice is missing"
OLD_DRIVER = "the NVIDIA driver is older than the CUDA toolkit"
CUDNN = "cuDNN is missing or too old"
NO_LIBRARIES = "TensorFlow cannot load CUDA's libraries"

TEXTS = {
    # https://github.com/tensorflow/tensorflow/issues/111958 (TensorFlow 2.21 and 2.22 nightly)
    "LLVM ERROR: PTX version 8.5 does not support target 'sm_120' (or 'sm_120a'). Minimum required "
    "PTX version is 8.7": OLD_TENSORFLOW,
    # https://github.com/openxla/xla/issues/47982
    "LLVM Fatal Error while compiling target binary for module: jit_iota\nReason: PTX version 8.8 "
    "does not support target 'sm_107a'.\nMinimum required PTX version is 9.4.": OLD_TENSORFLOW,
    # https://github.com/tensorflow/tensorflow/issues/99592 (TensorFlow 2.20, RTX 5000 series)
    "W tensorflow/compiler/mlir/tools/kernel_gen/tf_gpu_runtime_wrappers.cc:40] "
    "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_PTX'": OLD_TENSORFLOW,
    # https://github.com/tensorflow/serving/issues/1821
    "Your CUDA software stack is old. We fallback to the NVIDIA driver for some compilation. "
    "Update your CUDA version to get the best performance. The ptxas error was: ptxas fatal   : "
    "Value 'sm_86' is not defined for option 'gpu-name'": OLD_TENSORFLOW,
    # https://github.com/openxla/xla/issues/5932
    "asm_compiler.cc:231] Falling back to the CUDA driver for PTX compilation; ptxas does not "
    "support CC 9.0": OLD_TENSORFLOW,
    # https://github.com/jax-ml/jax/issues/17976: the old ptxas is the cause of what follows it
    "external/xla/xla/stream_executor/gpu/asm_compiler.cc:232] Falling back to the CUDA driver for "
    "PTX compilation; ptxas does not support CC 8.9\nexternal/xla/xla/stream_executor/cuda/"
    "cuda_driver.cc:864] failed to load PTX text as a module: CUDA_ERROR_INVALID_IMAGE: device "
    "kernel image is invalid": OLD_TENSORFLOW,
    # https://github.com/jax-ml/jax/issues/25344
    "ptxas : Unsupported .version 8.4; current version is '8.2'": OLD_TENSORFLOW,
    # https://github.com/jax-ml/jax/issues/18514
    "operation gpuGetLastError() failed: no kernel image is available for execution on the device; "
    "current tracing scope: custom-call.11": OLD_TENSORFLOW,
    # https://github.com/wutzebaer/tensorflow-5090/issues/3 (TensorFlow 2.20 of their own)
    "W tensorflow/core/framework/op_kernel.cc:1855] OP_REQUIRES failed at xla_ops.cc:590 : "
    "UNAVAILABLE: No PTX compilation provider is available. Neither ptxas/nvlink nor nvjtlink is "
    "available.": NO_PTXAS,
    # https://github.com/tensorflow/models/issues/9847
    "OP_REQUIRES failed at xla_ops.cc:489 : Not found: ./bin/ptxas not found": NO_PTXAS,
    # https://github.com/jax-ml/jax/issues/6583
    "W tensorflow/compiler/xla/service/gpu/nvptx_compiler.cc:70] Can't find ptxas binary in "
    "${CUDA_DIR}/bin.  Will back to the GPU driver for PTX -> sass compilation.": NO_PTXAS,
    # https://github.com/tensorflow/tensorflow/issues/60790
    "OP_REQUIRES failed at xla_ops.cc:362 : INTERNAL: libdevice not found at ./libdevice.10.bc": (
        NO_LIBDEVICE
    ),
    # https://github.com/tensorflow/tensorflow/issues/58859
    "nvptx_helper.cc:56] Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice. This may "
    "result in compilation or runtime failures, if the program we try to run uses routines from "
    "libdevice.": NO_LIBDEVICE,
    # https://github.com/tensorflow/tensorflow/issues/41401
    "RuntimeError: cudaGetDevice() failed. Status: CUDA driver version is insufficient for CUDA "
    "runtime version": OLD_DRIVER,
    # https://github.com/jax-ml/jax/issues/8731
    "INTERNAL: CustomCall failed: jaxlib/cuda_prng_kernels.cc:30: operation cudaGetLastError() "
    "failed: the provided PTX was compiled with an unsupported toolchain.": OLD_DRIVER,
    # https://github.com/jax-ml/jax/issues/18572; the reason is in jax-ml/jax/issues/18577
    "INTERNAL: Failed to load in-memory CUBIN (compiled for a different GPU?).: "
    "CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid": OLD_DRIVER,
    # https://github.com/jax-ml/jax/issues/25718
    "The NVIDIA driver's CUDA version is 12.4 which is older than the PTX compiler version "
    "(12.6.85). Because the driver is older than the PTX compiler version, XLA is disabling "
    "parallel compilation, which may slow down compilation.": OLD_DRIVER,
    # https://github.com/tensorflow/text/issues/1167 (TensorFlow 2.12)
    "cuda_dnn.cc:417] Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.6.0.  "
    "CuDNN library needs to have matching major version and equal or higher minor version.": CUDNN,
    "UNIMPLEMENTED: DNN library is not found.": CUDNN,
    # https://github.com/tensorflow/tensorflow/issues/60646 (TensorFlow 2.12)
    "W tensorflow/core/common_runtime/gpu/gpu_device.cc:1956] Cannot dlopen some GPU libraries. "
    "Please make sure the missing libraries mentioned above are installed properly if you would "
    "like to use GPU.": NO_LIBRARIES,
}


@pytest.mark.parametrize(("text", "what"), TEXTS.items())
def test_the_cause_of_an_error_on_a_gpu_is_told_from_its_text(text: str, what: str) -> None:
    cause = toolchain.known_cause(f"a line before\n{text}\na line after")
    assert cause is not None
    assert cause.what == what
    assert cause.fix


def test_an_unknown_text_has_no_cause() -> None:
    # https://github.com/tensorflow/tensorflow/issues/97387: harmless where the driver is new enough
    text = (
        "TensorFlow was not built with CUDA kernel binaries compatible with compute capability "
        "12.0. CUDA kernels will be jit-compiled from PTX, which could take 30 minutes."
    )
    assert toolchain.known_cause(text) is None


def process(program: str) -> tuple[toolchain.Check, ...]:
    programs = {"self_check": (sys.executable, "-c", program)}
    return toolchain.check(CPU, replace(default_backend(), programs=programs))


def test_a_compiler_that_kills_the_process_is_judged_by_its_log() -> None:
    checks = process(
        "import os, sys\n"
        'print(\'{"program": "matmul"}\', flush=True)\n'
        "print('noise of a library', flush=True)\n"
        'sys.stderr.write("a line before\\nLLVM ERROR: PTX version 8.5 does not support target '
        "'sm_120' (or 'sm_120a').\\n\")\n"
        "sys.stderr.flush()\n"
        "os.abort()\n"
    )
    assert [check.compiled.program for check in checks] == list(toolchain.PROGRAMS)
    assert checks[0].compiled.error == ""
    assert checks[1].compiled.error == "the process ended with SIGABRT"
    assert checks[1].cause is not None
    assert checks[1].cause.what == OLD_TENSORFLOW
    assert checks[1].line.startswith("LLVM ERROR: PTX version 8.5")


def test_an_error_tells_more_than_a_warning_in_the_log() -> None:
    (first, _) = process(
        "import json, sys\n"
        'sys.stderr.write("Can\'t find libdevice directory\\n")\n'
        "for name in ('matmul', 'convolution'):\n"
        "    error = 'UNAVAILABLE: No PTX compilation provider is available.'\n"
        "    print(json.dumps({'program': name, 'error': error}), flush=True)\n"
    )
    assert first.cause is not None
    assert first.cause.what == NO_PTXAS


def test_an_unknown_error_is_shown_as_it_is() -> None:
    (first, _) = process(
        'print(\'{"program": "matmul", "error": "INTERNAL: something else"}\', flush=True)'
    )
    assert (first.cause, first.line) == (None, "INTERNAL: something else")


def test_what_takes_too_long_is_said_to_do_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "run", partial(programs.run, limit_s=0.2))
    (first, _) = process("import time; time.sleep(60)")
    assert first.line == "not compiled within 0.2 s"
