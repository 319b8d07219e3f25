"""Modes: what is called, and how it is executed; scenarios: what a call does, in which modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache


class Entry(StrEnum):
    """The way a model is called: what a person writes, whatever compiles it."""

    MODEL = "model"  # `model(x)`, `x` on the device; while training, a step line by line
    FUNCTION = "function"  # a `tf.function`, its inputs on the device; in training, of a step
    HOST = "host"  # the model or a `tf.function` on a NumPy batch, copied there and back
    PREDICT = "predict"  # `model.predict`
    PREDICT_ON_BATCH = "predict_on_batch"  # `model.predict_on_batch`
    TRAIN_ON_BATCH = "train_on_batch"  # `model.train_on_batch`
    FIT = "fit"  # `model.fit` on a `tf.data.Dataset`
    FIT_NUMPY = "fit_numpy"  # `model.fit` on NumPy arrays
    INPUT = "input"  # The input pipeline alone
    SAVED = "saved"  # The function of a SavedModel, which has the weights

    @property
    def is_method(self) -> bool:
        """True for one of the model's own methods, which are Keras's."""
        return self.fits or self in (Entry.PREDICT, Entry.PREDICT_ON_BATCH, Entry.TRAIN_ON_BATCH)

    @property
    def fits(self) -> bool:
        """True for `model.fit`, whatever it trains on."""
        return self in (Entry.FIT, Entry.FIT_NUMPY)

    @property
    def written(self) -> str:
        """A method as people write of it."""
        return "fit on NumPy arrays" if self is Entry.FIT_NUMPY else str(self)

    @property
    def queues(self) -> bool:
        """True if a call returns before the device is done; the others read their outputs."""
        return self in (Entry.MODEL, Entry.FUNCTION)


class Execution(StrEnum):
    """Way to compile and run the calls of an entry."""

    EAGER = "eager"  # Operation by operation, without a graph
    DEFAULT = "default"  # A graph with `jit_compile=None`: TensorFlow's default
    GRAPH = "graph"  # A graph without XLA: `jit_compile=False`
    XLA = "xla"  # XLA: `jit_compile=True`
    AUTOCLUSTER = "autocluster"  # A graph, of which XLA compiles what the graph optimizer clusters
    AUTO = "auto"  # Keras chooses, after `compile(jit_compile="auto")`
    UNCOMPILED = "uncompiled"  # Keras chooses, without `compile`
    COMPILED = "compiled"  # PyTorch's `torch.compile` on the call, as people write it
    REDUCED = "reduced"  # The same with `mode="reduce-overhead"`: CUDA graphs on a GPU
    TUNED = "tuned"  # The same with `mode="max-autotune"`
    DYNAMIC = "dynamic"  # One program for all shapes: sizes are unknown when it is made
    EXPORTED = "exported"  # `torch.export`, then `torch.compile(fullgraph=True)`
    NONE = "none"  # No model runs

    @property
    def is_chosen(self) -> bool:
        """True if Keras chooses between a graph and XLA."""
        return self in (Execution.AUTO, Execution.UNCOMPILED)


DEFAULT_BACKEND = "tensorflow"
"""The backend of modes that name none, declared in `schema.backend.BACKENDS`."""

_E, _X = Entry, Execution

Role = tuple[Entry, Execution, bool]
"""Entry, execution and steps of a mode: what it is among the modes of its backend."""


class Mode(StrEnum):
    """Way to call and execute one and the same model. A name does not end in `_` and digits.

    With `steps` all batches of a call are one execution: Keras's `steps_per_execution`.
    """

    entry: Entry
    execution: Execution
    steps: bool
    backend: str

    def __new__(  # noqa: D102
        cls,
        name: str,
        entry: Entry,
        execution: Execution,
        steps: bool = False,
        backend: str = DEFAULT_BACKEND,
    ) -> Mode:
        mode = str.__new__(cls, name)
        mode._value_ = name
        mode.entry, mode.execution, mode.steps, mode.backend = entry, execution, steps, backend
        return mode

    EAGER = "eager", _E.MODEL, _X.EAGER
    DEFAULT = "default", _E.FUNCTION, _X.DEFAULT
    GRAPH = "graph", _E.FUNCTION, _X.GRAPH
    XLA = "xla", _E.FUNCTION, _X.XLA
    AUTOCLUSTER = "autocluster", _E.FUNCTION, _X.AUTOCLUSTER
    GRAPH_DYNAMIC = "graph_dynamic", _E.FUNCTION, _X.DYNAMIC
    CALL_HOST = "call_host", _E.HOST, _X.EAGER
    GRAPH_HOST = "graph_host", _E.HOST, _X.GRAPH
    XLA_HOST = "xla_host", _E.HOST, _X.XLA
    PREDICT = "predict", _E.PREDICT, _X.UNCOMPILED
    PREDICT_AUTO = "predict_auto", _E.PREDICT, _X.AUTO
    PREDICT_GRAPH = "predict_graph", _E.PREDICT, _X.GRAPH
    PREDICT_XLA = "predict_xla", _E.PREDICT, _X.XLA
    PREDICT_GRAPH_STEPS = "predict_graph_steps", _E.PREDICT, _X.GRAPH, True
    PREDICT_XLA_STEPS = "predict_xla_steps", _E.PREDICT, _X.XLA, True
    PREDICT_ON_BATCH = "predict_on_batch", _E.PREDICT_ON_BATCH, _X.UNCOMPILED
    PREDICT_ON_BATCH_AUTO = "predict_on_batch_auto", _E.PREDICT_ON_BATCH, _X.AUTO
    PREDICT_ON_BATCH_GRAPH = "predict_on_batch_graph", _E.PREDICT_ON_BATCH, _X.GRAPH
    PREDICT_ON_BATCH_XLA = "predict_on_batch_xla", _E.PREDICT_ON_BATCH, _X.XLA
    TRAIN_ON_BATCH_AUTO = "train_on_batch_auto", _E.TRAIN_ON_BATCH, _X.AUTO
    TRAIN_ON_BATCH_GRAPH = "train_on_batch_graph", _E.TRAIN_ON_BATCH, _X.GRAPH
    TRAIN_ON_BATCH_XLA = "train_on_batch_xla", _E.TRAIN_ON_BATCH, _X.XLA
    INPUT = "input", _E.INPUT, _X.NONE
    FIT_EAGER = "fit_eager", _E.FIT, _X.EAGER
    FIT_AUTO = "fit_auto", _E.FIT, _X.AUTO
    FIT_GRAPH = "fit_graph", _E.FIT, _X.GRAPH
    FIT_XLA = "fit_xla", _E.FIT, _X.XLA
    FIT_NUMPY = "fit_numpy", _E.FIT_NUMPY, _X.AUTO
    FIT_NUMPY_GRAPH = "fit_numpy_graph", _E.FIT_NUMPY, _X.GRAPH
    FIT_NUMPY_XLA = "fit_numpy_xla", _E.FIT_NUMPY, _X.XLA
    SAVED_GRAPH = "saved_graph", _E.SAVED, _X.GRAPH
    SAVED_XLA = "saved_xla", _E.SAVED, _X.XLA
    JAX_EAGER = "jax_eager", _E.MODEL, _X.EAGER, False, "jax"
    JAX_XLA = "jax_xla", _E.FUNCTION, _X.XLA, False, "jax"
    JAX_PREDICT_EAGER = "jax_predict_eager", _E.PREDICT, _X.EAGER, False, "jax"
    JAX_PREDICT_XLA = "jax_predict_xla", _E.PREDICT, _X.XLA, False, "jax"
    TORCH_EAGER = "torch_eager", _E.MODEL, _X.EAGER, False, "torch"
    TORCH_COMPILE = "torch_compile", _E.FUNCTION, _X.COMPILED, False, "torch"
    TORCH_EXPORT = "torch_export", _E.FUNCTION, _X.EXPORTED, False, "torch"
    TORCH_COMPILE_REDUCE_OVERHEAD = (
        "torch_compile_reduce_overhead",
        _E.FUNCTION,
        _X.REDUCED,
        False,
        "torch",
    )
    TORCH_COMPILE_MAX_AUTOTUNE = "torch_compile_max_autotune", _E.FUNCTION, _X.TUNED, False, "torch"
    TORCH_COMPILE_DYNAMIC = "torch_compile_dynamic", _E.FUNCTION, _X.DYNAMIC, False, "torch"
    TORCH_PREDICT_EAGER = "torch_predict_eager", _E.PREDICT, _X.EAGER, False, "torch"
    TORCH_PREDICT_COMPILE = "torch_predict_compile", _E.PREDICT, _X.COMPILED, False, "torch"

    @property
    def called(self) -> str:
        """Name that people give it."""
        return _words(self)[0]

    @property
    def switch(self) -> str:
        """Code that switches it on; its name where there is no switch."""
        return _words(self)[1]

    @property
    def role(self) -> Role:
        """Its role among the modes of its backend: what other backends have too."""
        return self.entry, self.execution, self.steps

    @property
    def without_xla(self) -> Mode | None:
        """The mode with a graph in place of XLA; None if it is not XLA, or there is none."""
        if self.execution is not Execution.XLA:
            return None
        return mode_in(self.backend, (self.entry, Execution.GRAPH, self.steps))


MODES: Mapping[str, Mode] = {str(mode): mode for mode in Mode}
"""The modes, by their names."""

_M = Mode

_WORDS: Mapping[Mode, tuple[str, str]] = {
    _M.EAGER: ("eager execution", "eager execution"),
    _M.DEFAULT: ("the default (jit_compile=None)", "tf.function without jit_compile"),
    _M.GRAPH: ("graph", "tf.function(jit_compile=False)"),
    _M.XLA: ("XLA", "jit_compile=True"),
    _M.AUTOCLUSTER: ("auto-clustering", 'tf.config.optimizer.set_jit("autoclustering")'),
    _M.GRAPH_DYNAMIC: (
        "a graph for all shapes",
        "tf.function(input_signature=[tf.TensorSpec([None, ...])])",
    ),
    _M.CALL_HOST: ("model(x) on a NumPy batch", "model(x)"),
    _M.GRAPH_HOST: ("graph from NumPy to NumPy", "tf.function(jit_compile=False)"),
    _M.XLA_HOST: ("XLA from NumPy to NumPy", "tf.function(jit_compile=True)"),
    _M.INPUT: ("the input pipeline alone", "the input pipeline alone"),
    _M.SAVED_GRAPH: ("a SavedModel's graph", "tf.saved_model.load without jit_compile"),
    _M.SAVED_XLA: ("a SavedModel with XLA", "a SavedModel of tf.function(jit_compile=True)"),
    _M.JAX_EAGER: ("eager JAX", "model(x) with KERAS_BACKEND=jax"),
    _M.JAX_XLA: ("JAX with XLA", "jax.jit(model)"),
    _M.JAX_PREDICT_EAGER: ("model.predict on JAX without XLA", "compile(jit_compile=False)"),
    _M.JAX_PREDICT_XLA: ("model.predict on JAX with XLA", "compile(jit_compile=True)"),
    _M.TORCH_EAGER: ("eager PyTorch", "model(x) on PyTorch"),
    _M.TORCH_COMPILE: ("PyTorch with torch.compile", "torch.compile(model)"),
    _M.TORCH_COMPILE_REDUCE_OVERHEAD: (
        "torch.compile with reduce-overhead",
        'torch.compile(model, mode="reduce-overhead")',
    ),
    _M.TORCH_COMPILE_MAX_AUTOTUNE: (
        "torch.compile with max-autotune",
        'torch.compile(model, mode="max-autotune")',
    ),
    _M.TORCH_COMPILE_DYNAMIC: (
        "torch.compile with dynamic shapes",
        "torch.compile(model, dynamic=True)",
    ),
    _M.TORCH_EXPORT: (
        "PyTorch exported and compiled",
        "torch.compile(torch.export.export(model, (x,)).module())",
    ),
    _M.TORCH_PREDICT_EAGER: ("model.predict on eager PyTorch", "compile(jit_compile=False)"),
    _M.TORCH_PREDICT_COMPILE: (
        "model.predict on PyTorch with torch.compile",
        "compile(jit_compile=True)",
    ),
}
"""Each mode's name among people, and the code that switches it on; but for Keras's own methods."""

_METHOD_WORDS: Mapping[Execution, tuple[str, str]] = {
    Execution.UNCOMPILED: ("without compile", ""),
    Execution.EAGER: ("run eagerly", "compile(run_eagerly=True)"),
    Execution.AUTO: ('after compile(jit_compile="auto")', 'compile(jit_compile="auto")'),
    Execution.GRAPH: ("without XLA", "compile(jit_compile=False)"),
    Execution.XLA: ("with XLA", "compile(jit_compile=True)"),
}
"""The name of a mode of Keras's own methods after the method, and its switch."""


@cache
def _words(mode: Mode) -> tuple[str, str]:
    """A mode's name among people, and the code that switches it on."""
    if mode in _WORDS:
        return _WORDS[mode]
    ending, switch = _METHOD_WORDS[mode.execution]
    called = f"model.{mode.entry.written} {ending}"
    if mode.steps:
        called += " and with steps_per_execution"
        switch = switch.replace(")", ", steps_per_execution=N)")
    return called, switch or called


@cache
def parse(label: str) -> tuple[Mode, int]:
    """The mode of a label and its copy: `graph_2` is the second of `graph`; else `ValueError`."""
    name, _, copy = label.rpartition("_")
    numbered = copy.isdecimal()
    mode = MODES.get(name if numbered else label)
    if mode is None:
        raise ValueError(f"no mode is named {label}")
    return mode, int(copy) if numbered else 1


def mode_of(label: str) -> Mode:
    """The mode of a label, as `parse`.

    Raises:
        ValueError: there is no such mode.
    """
    return parse(label)[0]


def is_mode(label: str) -> bool:
    """True if a label names a mode of this version, or a copy of one."""
    try:
        parse(label)
    except ValueError:
        return False
    return True


def label_of(mode: Mode, copy: int = 1) -> str:
    """The label of a copy of a mode."""
    return f"{mode}_{copy}" if copy > 1 else str(mode)


def mode_in(backend: str, role: Role) -> Mode | None:
    """The mode of a backend that has this role, or None."""
    modes = (mode for mode in MODES.values() if (mode.backend, mode.role) == (backend, role))
    return next(modes, None)


class Scenario(StrEnum):
    """Work of one timed call; `SCENARIOS` declares each."""

    CALL = "call"
    DETECT = "detect"
    PREDICT = "predict"
    TRAIN_STEP = "train_step"
    FIT = "fit"
    COLD_START = "cold_start"
    NEW_SHAPES = "new_shapes"


_WORKER_MODE = "xla_sweeps.trial.contender:WorkerMode"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFacts:
    """Facts of a scenario.

    Attributes:
        default: those measured unless `modes` says otherwise, before `jit` chooses the candidate.
        jit: the candidate of each value of `jit` in lower case, as Hydra, W&B and people write it.
            Those of `false` and `true` are what the scenario's headline compares.
        write: what a Keras user writes, and where, with `jit_compile={switch}` in it.
        named_by: the ways of calling that tell the scenario by their name.
        is_epoch: whether a call is an epoch, with its own input.
        why_lacking: reason why a backend has no mode of it; "" where each has some.
        contender: the class of what takes turns in rounds (`trial.contender`).
    """

    meaning: str
    modes: tuple[Mode, ...]
    default: tuple[Mode, ...]
    jit: Mapping[str, Mode]
    call: str = "call"
    write: str = "tf.function(model, jit_compile={switch}), called instead of model(x)"
    named_by: tuple[Entry, ...] = ()
    trains: bool = False
    takes_batches: bool = False
    is_epoch: bool = False
    why_lacking: str = ""
    contender: str = _WORKER_MODE

    @property
    def starts_processes(self) -> bool:
        """True if a call is no call of a worker, but takes the seconds that a process does."""
        return self.contender != _WORKER_MODE


def _jit(*, true: Mode, false: Mode, null: Mode, auto: Mode | None = None) -> dict[str, Mode]:
    return {"true": true, "false": false, "null": null, "none": null, "auto": auto or null}


def _modes_of(*entries: Entry) -> tuple[Mode, ...]:
    """All modes that call in one of these ways."""
    return tuple(mode for mode in Mode if mode.entry in entries)


_FORWARD = ScenarioFacts(
    meaning="the forward pass",
    modes=(_M.EAGER, _M.DEFAULT, _M.GRAPH, _M.XLA, _M.AUTOCLUSTER),
    default=(_M.EAGER, _M.GRAPH, _M.XLA),
    jit=_jit(true=_M.XLA, false=_M.GRAPH, null=_M.DEFAULT, auto=_M.AUTOCLUSTER),
)

SCENARIOS: Mapping[Scenario, ScenarioFacts] = {
    Scenario.CALL: replace(
        _FORWARD,
        modes=(
            *(*_FORWARD.modes, _M.JAX_EAGER, _M.JAX_XLA),
            *(_M.TORCH_EAGER, _M.TORCH_COMPILE, _M.TORCH_EXPORT, _M.TORCH_COMPILE_REDUCE_OVERHEAD),
            *(_M.TORCH_COMPILE_MAX_AUTOTUNE, _M.TORCH_COMPILE_DYNAMIC),
        ),
    ),
    Scenario.DETECT: replace(
        _FORWARD,
        meaning="a detector's forward pass, decoding and non-max suppression",
        write="tf.function(jit_compile={switch}) on the function that calls and decodes",
        why_lacking="the detectors decode their boxes in TensorFlow",
    ),
    Scenario.PREDICT: ScenarioFacts(
        meaning="Keras's predict, and what people call instead",
        modes=(*_FORWARD.modes, *_modes_of(Entry.HOST, Entry.PREDICT, Entry.PREDICT_ON_BATCH)),
        default=(
            *(_M.CALL_HOST, _M.GRAPH_HOST, _M.XLA_HOST),
            *(_M.PREDICT, _M.PREDICT_GRAPH, _M.PREDICT_XLA),
        ),
        jit=_jit(true=_M.PREDICT_XLA, false=_M.PREDICT_GRAPH, null=_M.PREDICT_AUTO),
        write="model.compile(jit_compile={switch}) before model.predict",
        named_by=(Entry.PREDICT, Entry.PREDICT_ON_BATCH),
        takes_batches=True,
    ),
    Scenario.TRAIN_STEP: ScenarioFacts(
        meaning="one step: forward pass, loss, gradients, optimizer",
        modes=(
            *(_M.EAGER, _M.GRAPH, _M.XLA, *_modes_of(Entry.TRAIN_ON_BATCH)),
            *(_M.JAX_EAGER, _M.JAX_XLA, _M.TORCH_EAGER, _M.TORCH_COMPILE),
        ),
        default=(_M.GRAPH, _M.XLA, _M.TRAIN_ON_BATCH_GRAPH, _M.TRAIN_ON_BATCH_XLA),
        jit=_jit(true=_M.XLA, false=_M.GRAPH, null=_M.TRAIN_ON_BATCH_AUTO),
        call="step",
        write="model.compile(..., jit_compile={switch}), or @tf.function on your own step",
        trains=True,
    ),
    Scenario.FIT: ScenarioFacts(
        meaning="Keras's fit, with its input pipeline",
        modes=(_M.INPUT, _M.GRAPH, _M.XLA, *_modes_of(Entry.FIT, Entry.FIT_NUMPY)),
        default=(_M.INPUT, _M.GRAPH, _M.XLA, _M.FIT_GRAPH, _M.FIT_XLA),
        jit=_jit(true=_M.FIT_XLA, false=_M.FIT_GRAPH, null=_M.FIT_AUTO),
        call="epoch",
        write="model.compile(..., jit_compile={switch}) before model.fit",
        named_by=(Entry.FIT, Entry.FIT_NUMPY),
        trains=True,
        takes_batches=True,
        is_epoch=True,
        why_lacking="its input pipeline is TensorFlow's tf.data",
    ),
    Scenario.COLD_START: ScenarioFacts(
        meaning="from the start of a process to its first answer",
        modes=(
            *(_M.DEFAULT, _M.GRAPH, _M.XLA, _M.SAVED_GRAPH, _M.SAVED_XLA),
            *(_M.JAX_XLA, _M.TORCH_COMPILE, _M.TORCH_EXPORT),
        ),
        default=(_M.GRAPH, _M.XLA, _M.SAVED_XLA),
        jit=_jit(true=_M.XLA, false=_M.GRAPH, null=_M.DEFAULT),
        call="start",
        write="tf.function(model, jit_compile={switch}), in a process that is started to answer",
        contender="xla_sweeps.trial.cold_start:ColdStart",
    ),
    Scenario.NEW_SHAPES: replace(
        _FORWARD,
        meaning="the first call of each of several shapes, and a later one",
        modes=(
            *(_M.EAGER, _M.DEFAULT, _M.GRAPH, _M.GRAPH_DYNAMIC, _M.XLA),
            *(_M.JAX_EAGER, _M.JAX_XLA, _M.TORCH_EAGER, _M.TORCH_COMPILE),
            _M.TORCH_COMPILE_DYNAMIC,
        ),
        default=(_M.GRAPH, _M.GRAPH_DYNAMIC, _M.XLA),
        jit=_jit(true=_M.XLA, false=_M.GRAPH, null=_M.DEFAULT),
        call="stream",
        write="tf.function(model, jit_compile={switch}), where each shape is called once or twice",
    ),
}
"""The scenarios, and what each measures, compares and is called: the one place that says so."""

TAKING_BATCHES = tuple(scenario for scenario, facts in SCENARIOS.items() if facts.takes_batches)
"""Those of which one call may take several batches."""

STARTING = next(scenario for scenario, facts in SCENARIOS.items() if facts.starts_processes)
"""The one of which a call starts a process."""

TRAINING = tuple(scenario for scenario, facts in SCENARIOS.items() if facts.trains)
"""Those that change the weights."""

JIT_CANDIDATES = SCENARIOS[Scenario.CALL].jit
"""The values of `jit`, each with the candidate of a forward pass."""
