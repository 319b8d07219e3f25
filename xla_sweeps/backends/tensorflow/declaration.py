"""The declaration of TensorFlow: what is known of it without loading it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xla_sweeps.backends.tensorflow.advice import advice
from xla_sweeps.schema.backend import Backend, KnownFailure, flag_names
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import Execution, mode_of
from xla_sweeps.schema.trial import Trial, as_typed
from xla_sweeps.system.process import python_command

CPU_CLUSTERING_FLAG = "tf_xla_cpu_global_jit"
"""Allows auto-clustering on a CPU; has no effect if it is given twice (TensorFlow 2.21)."""

_SWITCHES = {
    "onednn": "TF_ENABLE_ONEDNN_OPTS",
    "threads.intra": "TF_NUM_INTRAOP_THREADS",
    "threads.inter": "TF_NUM_INTEROP_THREADS",
}

_FLAGS = {"xla_flags": "XLA_FLAGS", "tf_xla_flags": "TF_XLA_FLAGS"}


def _environment(trial: Trial, given: Mapping[str, str]) -> dict[str, str]:
    """Flags and switches, which TensorFlow reads when it loads."""
    runtime = trial.runtime
    switches = (runtime.onednn, runtime.intra_threads, runtime.inter_threads)  # as in `_SWITCHES`
    variables = {
        variable: str(int(value))
        for variable, value in zip(_SWITCHES.values(), switches, strict=True)
        if value is not None
    }
    clusters = any(mode_of(label).execution is Execution.AUTOCLUSTER for label in trial.modes)
    names = flag_names(given.get("TF_XLA_FLAGS", "")) | set(runtime.tf_xla_flags)
    for name, variable in _FLAGS.items():
        words = [f"--{flag}={as_typed(value)}" for flag, value in getattr(runtime, name).items()]
        is_missing = name == "tf_xla_flags" and CPU_CLUSTERING_FLAG not in names
        if is_missing and clusters and not trial.on_accelerator:
            words.append(f"--{CPU_CLUSTERING_FLAG}")
        if words:
            variables[variable] = " ".join([*given.get(variable, "").split(), *words])
    return variables


def _cache(folder: str, given: Mapping[str, str]) -> dict[str, str]:
    """The flag of XLA's persistent cache, after those that are given."""
    flag = f'--tf_xla_persistent_cache_directory="{folder}"'  # else a blank would end it
    return {"TF_XLA_FLAGS": " ".join([*given.get("TF_XLA_FLAGS", "").split(), flag])}


def _unsupported_operations(match: re.Match[str]) -> str:
    """All operations that the text names, and the first node, whose name has the layer's."""
    named = re.findall(r"No registered '(\w+)' OpKernel", match.string)
    ops = list(dict.fromkeys([match["op"], *named]))
    node = re.search(r"\{\{node ([^}]+)\}\}", match.string)
    return (
        f"XLA has no kernel for the operation{'s' if len(ops) > 1 else ''} {', '.join(ops)} on "
        f"{match['device']}{f' (at {node[1]})' if node else ''}"
    )


_FAILURES = (
    KnownFailure(
        re.compile(r"unsupported operations.*? on (?P<device>XLA_\w+): (?P<op>\w+) \(", re.S),
        Status.UNSUPPORTED_OP,
        _unsupported_operations,
        lambda op: f"in place of {op}: {advice(op)}; auto-clustering (jit=auto) leaves it out",
    ),
    KnownFailure(
        re.compile(
            r"Input (?P<input>\d+) to node [`'](?P<node>.+?)[`'] with op (?P<op>\w+) "
            r"must be a compile-time const"
        ),
        Status.DYNAMIC_SHAPE,
        "input {input} of {op} ({node}) must be known at compile time: a shape depends on computed "
        "values",
        "make that shape static, or compute it outside jit_compile",
    ),
    KnownFailure(
        re.compile(r"Input and output shapes of loop body do not match"),
        Status.DYNAMIC_SHAPE,
        "XLA cannot compile a while loop that changes the shape of its variables",
        "pad the loop's variables to a fixed shape",
    ),
    KnownFailure(
        re.compile(
            r"Seen floating point types of different precisions in .*?"
            r"op_type=\"(?P<op>\w+)\" op_name=\"(?P<node>[^\"]+)\"",
            re.S,
        ),
        Status.UNSUPPORTED_OP,
        "XLA cannot compile {op} ({node}) in half precision: it computes parts of it in float32",
        "build that layer with dtype='float32'",
    ),
    KnownFailure(
        re.compile(r"indices\[[\d,]*\] = (?P<index>-?\d+) is not in \[0, (?P<count>\d+)\)"),
        Status.RUN_ERROR,
        "the index {index} is not in [0, {count})",
        "draw inputs in the model's range: low and high in input_spec, or inputs=batch.npy",
    ),
    KnownFailure(
        re.compile(
            r"Can't parse \S*xla_compile_cache\S* as binary proto"
            r"|Read less bytes than requested \[Op:__inference"
        ),
        Status.CACHE_DAMAGED,
        "an entry of XLA's persistent cache is damaged",
        "empty the folder of --tf_xla_persistent_cache_directory",
    ),
    KnownFailure(
        re.compile(r"failed to lift variable creations out of this tf.function", re.I),
        Status.TRACE_ERROR,
        "the model creates variables inside its call, so it cannot be compiled",
        "create all variables when the model is built",
    ),
)

_PROGRAMS = {
    "worker": "worker",
    "flags": "flags",
    "self_check": "self_check",
    "ops": "explain.refusals",
    "replicas": "sources.hub",
}

BACKEND = Backend(
    name="tensorflow",
    title="TensorFlow",
    programs={
        program: python_command(f"xla_sweeps.backends.tensorflow.{module}")
        for program, module in _PROGRAMS.items()
    },
    explains=True,
    packages={
        "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly"),
        **{
            name: (name,)
            for name in ("keras", "tf_keras", "keras-cv", "keras-hub", "tensorflow-hub")
        },
    },
    for_gpu="tensorflow[and-cuda]",
    identity=("tensorflow", "keras", "tf_keras"),
    only_for=frozenset({"tf_keras"}),
    shown={"tensorflow": "TensorFlow", "keras": "Keras"},
    tracked={"tensorflow": "tensorflow", "keras_version": "keras"},  # keras is an option
    variables={"KERAS_BACKEND": "tensorflow", "TF_FORCE_GPU_ALLOW_GROWTH": "true"},
    environment=_environment,
    cache=_cache,
    prefixes=("TF",),
    caches=("KERAS_HOME", "TFHUB_CACHE_DIR"),
    foreign=(  # Terraform's, which may hold secrets
        r"TF_(?:ACC|CLI|CLOUD|DATA_DIR|ENCRYPTION|HTTP|IGNORE|INPUT|IN|LOG|PLUGIN|REATTACH"
        r"|REGISTRY|STATE|VAR|WORKSPACE)(?:_\w*)?|TF_CONFIG"
    ),
    log_level="TF_CPP_MIN_LOG_LEVEL",
    switches=_SWITCHES,
    flags=_FLAGS,
    words=frozenset({"xla_cpu_max_isa", "xla_disable_hlo_passes", "tf_xla_ops_to_cluster"}),
    failures=_FAILURES,
)
