"""Messages of TensorFlow 2.21 and real ends of a process become failures."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import pytest

from xla_sweeps.schema.backend import backend_named, default_backend
from xla_sweeps.schema.measurement import Phase, Status
from xla_sweeps.system.installation import install
from xla_sweeps.trial import failures
from xla_sweeps.trial.failures import first_line

diagnose_exception = partial(failures.diagnose_exception, backend=default_backend())
diagnose_end = partial(failures.diagnose_end, backend=default_backend())

UNSUPPORTED = (
    "Detected unsupported operations when trying to compile graph f_90[_XlaMustCompile=true,"
    "config_proto=123,executor_type=] on XLA_CPU_JIT: MaxPoolWithArgmax (No registered "
    "'MaxPoolWithArgmax' OpKernel for XLA_CPU_JIT devices compatible with node "
    "{{node net_1/arg_pool_1/MaxPoolWithArgmax}}){{node net_1/arg_pool_1/MaxPoolWithArgmax}}"
    '\nThe op is created at: \nFile "model.py", line 36, in <module>'
)

NOT_CONSTANT = (
    "Input 1 to node `net_1_1/dyn_resize_1/resize/ResizeBilinear` with op ResizeBilinear must be a "
    "compile-time constant.\n\nXLA compilation requires that operator arguments that represent "
    "shapes or dimensions be evaluated to concrete values at compile time."
)

LOOP = (
    "Input and output shapes of loop body do not match: (s32[], s32[], s32[], f32[2,32,32,8], "
    "f32[2,32,32,8]) vs. (s32[], s32[], s32[], f32[2,64,32,8], f32[2,32,32,8])"
)

LIFT = (
    "We failed to lift variable creations out of this tf.function, so this tf.function cannot be "
    "run on XLA."
)

GPU_OOM = (
    "{{function_node __wrapped__Conv2D_device_/job:localhost/replica:0/task:0/device:GPU:0}} OOM "
    "when allocating tensor with shape[512,64,224,224] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)


@pytest.mark.parametrize(
    ("phase", "text", "status", "op"),
    [
        (Phase.COMPILE, UNSUPPORTED, Status.UNSUPPORTED_OP, "MaxPoolWithArgmax"),
        (Phase.VERIFY, f"No text: '{UNSUPPORTED}'", Status.UNSUPPORTED_OP, "MaxPoolWithArgmax"),
        (Phase.COMPILE, NOT_CONSTANT, Status.DYNAMIC_SHAPE, "ResizeBilinear"),
        (Phase.COMPILE, LOOP, Status.DYNAMIC_SHAPE, ""),
        (Phase.COMPILE, LIFT, Status.TRACE_ERROR, ""),
        (Phase.MEASURE, GPU_OOM, Status.OOM_GPU, ""),
        (Phase.COMPILE, "OOM when allocating tensor with shape[1] on CPU", Status.OOM_HOST, ""),
        (Phase.WARMUP, "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error", Status.INFRA, ""),
        (Phase.BUILD, "bad constructor", Status.BUILD_ERROR, ""),
        (Phase.TRACE, "bad call", Status.TRACE_ERROR, ""),
        (Phase.COMPILE, "ptxas exited with 1", Status.COMPILE_ERROR, ""),
        (Phase.MEASURE, "indices[0] = 100 is not in [0, 32)", Status.RUN_ERROR, ""),
        (Phase.IMPORT, "libcudart.so", Status.INFRA, ""),
    ],
)
def test_an_exception_becomes_a_status(phase: Phase, text: str, status: Status, op: str) -> None:
    diagnosed, failure = diagnose_exception(phase, "ValueError", text)
    assert diagnosed is status
    assert failure.op == op
    assert "\n" not in failure.message
    assert failure.phase is phase


@pytest.mark.parametrize(
    ("op", "hint"),
    [
        ("MaxPoolWithArgmax", "in place of MaxPoolWithArgmax: tf.nn.max_pool2d, and tf.argmax"),
        ("StringFormat", "in place of StringFormat: remove tf.print"),
        (
            "Unheard",
            "in place of Unheard: another operation, or this part outside jit_compile; auto-clus",
        ),
    ],
)
def test_what_to_use_in_place_of_an_operation_is_said_as_explain_says_it(
    op: str, hint: str
) -> None:
    text = UNSUPPORTED.replace("MaxPoolWithArgmax", op)
    assert diagnose_exception(Phase.COMPILE, "ValueError", text)[1].hint.startswith(hint)


TWO_UNSUPPORTED = (
    "Detected unsupported operations when trying to compile graph f[] on XLA_GPU_JIT: "
    "CropAndResize (No registered 'CropAndResize' OpKernel for XLA_GPU_JIT devices compatible "
    "with node {{node net/crop/CropAndResize}}){{node net/crop/CropAndResize}}, AsString (No "
    "registered 'AsString' OpKernel for XLA_GPU_JIT devices compatible with node "
    "{{node net/text/AsString}}){{node net/text/AsString}}"
)

KERAS_WRAPPER = (
    "Exception encountered when calling Queries.call().\n\n\x1b[1minput must have at least 300 "
    "columns\x1b[0m\n\nArguments"
)

NO_COMPILER = (
    "InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: "
    "(None, 'g++')\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace"
)

NO_EXPORT = (
    "\n\nThe error above occurred when calling torch.export.export. If you would like to view "
    "some more information about this error, you can replace your `export()` call"
)

NO_LIBRARY = "libcudnn.so.9: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("backend", "phase", "text", "status", "message", "hint"),
    [
        (
            "tensorflow",
            Phase.COMPILE,
            UNSUPPORTED,
            Status.UNSUPPORTED_OP,
            "XLA has no kernel for the operation MaxPoolWithArgmax on XLA_CPU_JIT "
            "(at net_1/arg_pool_1/MaxPoolWithArgmax)",
            "jit=auto",
        ),
        (
            "tensorflow",
            Phase.COMPILE,
            TWO_UNSUPPORTED,
            Status.UNSUPPORTED_OP,
            "XLA has no kernel for the operations CropAndResize, AsString on XLA_GPU_JIT "
            "(at net/crop/CropAndResize)",
            "in place of CropAndResize: ",
        ),
        (
            "tensorflow",
            Phase.BUILD,
            KERAS_WRAPPER,
            Status.BUILD_ERROR,
            "E: input must have at least 300 columns (in Queries.call())",
            "",
        ),
        (
            "jax",
            Phase.BUILD,
            "INVALID_ARGUMENT: Buffer has been deleted or donated.",
            Status.RUN_ERROR,
            "the function donates its inputs, so that no second call has them",
            "remove donate_argnums",
        ),
        (
            "torch",
            Phase.COMPILE,
            NO_COMPILER,
            Status.COMPILE_ERROR,
            "torch.compile needs a C++ compiler on a CPU, and there is none",
            "install g++",
        ),
        (
            "torch",
            Phase.TRACE,
            NO_EXPORT,
            Status.TRACE_ERROR,
            "torch cannot capture the model as one graph",
            "control flow",
        ),
        (
            "torch",
            Phase.IMPORT,
            NO_LIBRARY,
            Status.INFRA,
            "PyTorch cannot be loaded: libcudnn.so.9 is missing",
            install("torch", again=True),
        ),
    ],
)
def test_a_known_text_is_one_line_with_what_to_do(
    backend: str, phase: Phase, text: str, status: Status, message: str, hint: str
) -> None:
    diagnosed, failure = diagnose_exception(phase, "E", text, backend=backend_named(backend))
    assert (diagnosed, failure.message) == (status, message)
    assert hint in failure.hint


@pytest.mark.parametrize(
    ("code", "phase", "more", "status", "kind"),
    [
        (-11, Phase.COMPILE, {}, Status.CRASHED, "SIGSEGV"),
        (-9, Phase.MEASURE, {"oom_kills": 1}, Status.OOM_HOST, "SIGKILL"),
        (-9, Phase.MEASURE, {}, Status.KILLED, "SIGKILL"),
        (-15, Phase.COMPILE, {}, Status.KILLED, "SIGTERM"),
        (-6, Phase.BUILD, {"log_tail": "what(): std::bad_alloc"}, Status.OOM_HOST, "SIGABRT"),
        (-9, Phase.COMPILE, {"killed_for": "timeout"}, Status.TIMEOUT, "timeout"),
        (-9, Phase.BUILD, {"killed_for": "memory"}, Status.OOM_HOST, "memory_limit"),
        (-15, Phase.MEASURE, {"killed_for": "interrupt"}, Status.INTERRUPTED, "interrupted"),
        (1, Phase.IMPORT, {}, Status.INFRA, "exit code 1"),
        (3, Phase.TRACE, {}, Status.CRASHED, "exit code 3"),
    ],
)
def test_the_end_of_a_process_becomes_a_status(
    code: int, phase: Phase, more: dict[str, Any], status: Status, kind: str
) -> None:
    diagnosed, failure = diagnose_end(phase, code, **more)
    assert (diagnosed, failure.kind) == (status, kind)


def test_the_last_words_of_a_process_that_ends_itself_are_its_reason() -> None:
    stamp = "0000 00:00:1796038625.342027    6193 parse_flags_from_env.cc:234]"
    reason = "Unknown flag in XLA_FLAGS: --xla_unknown=1"
    log = f"I{stamp} Devices: [0]\nF{stamp} {reason}\n*** Check failure stack trace: ***\n"
    status, failure = diagnose_end(Phase.COMPILE, 1, log_tail=log)
    assert status is Status.CRASHED
    assert failure.message == f"the process died in stage 'compile': {reason}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[Errno 28] No space left on device", "may be full"),
        ("/t/main.so: failed to map segment from shared object", "may be mounted noexec"),
    ],
)
def test_a_temporary_folder_that_takes_no_code_is_named(text: str, hint: str) -> None:
    _, failure = diagnose_exception(Phase.COMPILE, "OSError", text)
    assert hint in failure.hint
    assert "TMPDIR" in failure.hint


def test_a_timeout_names_the_option_that_raises_it() -> None:
    _, failure = diagnose_end(Phase.COMPILE, -9, killed_for="timeout", limit="5 s")
    assert failure.message == "stage 'compile' timed out after 5 s"
    assert "timeouts.compile=SECONDS" in failure.hint


def test_a_sentence_that_is_wrapped_is_told_whole() -> None:
    wrapped = (
        "\nObject Own was created by passing\nnon-serializable argument values,\nand must override "
        "`get_config()` in\norder to be serializable. Please implement it.\n\nExample:\n"
    )
    told = "values, and must override `get_config()` in order to be serializable."
    assert f"created by passing non-serializable argument {told}" in first_line(wrapped)
    assert first_line("Incompatible shapes: [8,1] vs. [4,1].\nadvice") == (
        "Incompatible shapes: [8,1] vs. [4,1]."
    )


def test_first_line_skips_blank_lines_and_is_bounded() -> None:
    assert first_line("\n\n  one \n two") == "one"
    assert first_line("") == "no message"
    assert len(first_line("x" * 5000)) == 400


ON_A_GPU = [
    ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17 bytes."),
    ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has 79.11 GiB"),
    ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ("ResourceExhaustedError", GPU_OOM),
]


@pytest.mark.parametrize(("kind", "text"), ON_A_GPU)
def test_exhausted_memory_is_the_gpus_where_it_is_measured_whether_the_text_names_it_or_not(
    kind: str, text: str
) -> None:
    status, failure = diagnose_exception(Phase.COMPILE, kind, text, device="gpu:0")
    assert status is Status.OOM_GPU
    assert "share" not in failure.hint
    assert failure.hint.endswith("the batch size is never changed automatically")
    _, shared = diagnose_exception(Phase.COMPILE, kind, text, device="gpu:0", workers=3)
    assert "3 processes share this GPU: a trial of fewer backends needs" in shared.hint


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("MemoryError", "Unable to allocate 3.0 GiB"),
        ("RuntimeError", "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 TB"),
        ("ResourceExhaustedError", "OOM when allocating tensor with shape[1] on CPU"),
        ("OSError", "[Errno 12] Cannot allocate memory"),
    ],
)
def test_exhausted_memory_of_the_machine_is_not_the_gpus(kind: str, text: str) -> None:
    device = "cpu" if kind == "OSError" else "gpu:0"
    status, _ = diagnose_exception(Phase.BUILD, kind, text, device=device)
    assert status is Status.OOM_HOST


LOST = [
    "NVRM: Xid (PCI:0000:17:00): 79, pid=1234, GPU has fallen off the bus.",
    "Unable to determine the device handle for GPU0000:17:00.0: GPU is lost.  Reboot the system",
    "INTERNAL: failed to synchronize: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
    "CUDA_ERROR_DEVICE_LOST: the device was lost",
    "CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported",
    "CUDA-capable device(s) is/are busy or unavailable",
]


@pytest.mark.parametrize(
    "text",
    [
        "build.<locals>.apply() missing 1 required positional argument: 'x'",
        "missing a required argument: 'mask'",
        "forward() takes 2 positional arguments but 3 were given",
        "too many positional arguments",
    ],
)
def test_a_call_with_other_arguments_than_inputs_is_told_what_to_do(text: str) -> None:
    _, failure = diagnose_exception(Phase.BUILD, "TypeError", text)
    assert failure.message == f"TypeError: {text}"
    assert "functools.partial(apply, params)" in failure.hint
    _, failure = diagnose_exception(Phase.BUILD, "TypeError", text, line="net.py:7")
    assert failure.hint == "see the traceback in the log", "a mistake in the model's own code"


@pytest.mark.parametrize("text", LOST)
def test_a_lost_gpu_is_told_in_its_own_line_with_what_to_do(text: str) -> None:
    wrapped = f"Graph execution error:\n\nDetected at node net/conv\n{text}\nmore"
    status, failure = diagnose_exception(Phase.MEASURE, "InternalError", wrapped)
    assert status is Status.INFRA
    assert failure.message == f"InternalError: {text.splitlines()[0]}"
    assert "nvidia-smi" in failure.hint
    assert "rerun to resume" in failure.hint
    end = partial(diagnose_end, Phase.MEASURE, -signal.SIGABRT, log_tail=f"x\n{text}\ny")
    status, failure = end(device="gpu:0")
    assert status is Status.INFRA
    assert failure.message == f"the process died with SIGABRT: {text.splitlines()[0]}"
    status, _ = end(device="cpu")
    assert status is Status.CRASHED, "TensorFlow looks for GPUs on a CPU, too"


def test_what_the_autotuner_tries_in_vain_is_not_why_a_process_died() -> None:
    text = (
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.5GiB with freed_by_count=0. "
        "The caller indicates that this is not a failure, but this may mean that there could be "
        "performance gains if more memory were available.\n"
    )
    end = partial(diagnose_end, Phase.MEASURE, -signal.SIGSEGV, device="gpu:0")
    assert end(log_tail=text)[0] is Status.CRASHED
    fatal = f"{text}F0000 CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
    assert end(log_tail=fatal)[0] is Status.OOM_GPU


HALF = (
    "during context [Unknown]: Seen floating point types of different precisions in %LRN.23 = "
    'f32[4,32,32,16]{3,2,1,0} multiply(%LRN.22, %LRN.19), metadata={op_type="LRN" '
    'op_name="net/lrn_1/LRN" source_file="/venv/framework/ops.py" source_line=1221}, but mixed '
    "precision is disallowed. [Op:__inference_forward_348]"
)

SLICE = (
    "{{function_node __wrapped__StridedSlice_device_/job:localhost/replica:0/task:0/device:CPU:0}} "
    "slice index 0 of dimension 1 out of bounds. [Op:StridedSlice] name: cut/lstm/strided_slice/"
)

ADVICE = (
    "Iterating over a symbolic `tf.Tensor` is not allowed. You can attempt the following "
    "resolutions to the problem: If you are running in Graph mode, use Eager execution mode or "
    "decorate this function with @tf.function."
)


def test_what_xla_refuses_in_half_precision_has_its_operation_and_a_way_out() -> None:
    status, failure = diagnose_exception(Phase.COMPILE, "InternalError", HALF)
    assert (status, failure.op) == (Status.UNSUPPORTED_OP, "LRN")
    assert "LRN (net/lrn_1/LRN) in half precision" in failure.message
    assert failure.hint == "build that layer with dtype='float32'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SLICE, "E: slice index 0 of dimension 1 out of bounds (net.py:13)"),
        (ADVICE, "E: Iterating over a symbolic `tf.Tensor` is not allowed (net.py:13)"),
        ("short. Another sentence", "E: short. Another sentence (net.py:13)"),
    ],
)
def test_a_message_is_its_cause_with_the_users_line_without_what_is_for_developers(
    text: str, message: str
) -> None:
    _, failure = diagnose_exception(Phase.TRACE, "E", text, line="net.py:13")
    assert failure.message == message
    assert "net.py" not in diagnose_exception(Phase.TRACE, "E", text)[1].message


def test_the_root_cause_is_found_behind_what_a_framework_hides() -> None:
    def hides() -> None:
        try:
            raise NotImplementedError from NameError("factor")
        except NotImplementedError:
            raise TypeError from None

    with pytest.raises(TypeError) as caught:
        hides()
    assert isinstance(failures.root_cause(caught.value), NameError)


class ResourceExhaustedError(Exception):
    """What TensorFlow raises."""


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (MemoryError(), True),
        (ResourceExhaustedError("no room"), True),
        (RuntimeError("CUDA out of memory"), True),
        (ValueError("shapes (2, 3) and (6,)"), False),
    ],
)
def test_an_exception_says_that_memory_ran_out(error: Exception, is_so: bool) -> None:
    assert failures.is_out_of_memory(error) is is_so
    hidden = ValueError("in a layer")
    hidden.__cause__ = error
    assert failures.is_out_of_memory(hidden) is is_so
