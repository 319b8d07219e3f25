"""Every option of a trial, declared once.

`--help`, docs/options.md, the accepted keys, the defaults, the nearest matches, a row's command and
the matching of two results folders are made from it; `conf/config.yaml` has the same keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.backend import BACKENDS
from xla_sweeps.schema.environment_options import ENVIRONMENT
from xla_sweeps.schema.modes import (
    JIT_CANDIDATES,
    SCENARIOS,
    STARTING,
    TAKING_BATCHES,
    TRAINING,
    Scenario,
)
from xla_sweeps.schema.option import Option
from xla_sweeps.schema.trial import (
    COMPILED,
    OPTIMIZERS,
    Effort,
    InputSpec,
    Precision,
    Training,
    Trial,
)

SYNTHETIC = "synthetic"
"""The value of `data` that stands for values that are drawn."""

LOCAL = "local"
"""The model and the source that stand for the user's own model."""


def _is_own(trial: Trial) -> bool:
    """True if it measures a model of the user's own."""
    return trial.model.source == LOCAL


def _in_recipe(key: str) -> Callable[[Trial], Any]:
    """What asks for a model of the user's own by this key; None of any other model."""
    return lambda trial: trial.model.recipe.get(key) if _is_own(trial) else None


def _input(given: InputSpec) -> dict[str, Any]:
    document = {"shape": list(given.shape), "dtype": given.dtype, "low": given.low}
    return document | {"high": given.high} | ({"name": given.name} if given.name else {})


_MEASURED = (
    Option(
        usage="model=NAME",
        of=lambda trial: LOCAL if _is_own(trial) else trial.model.name,
        help="a model of the catalog, or local: your own",
        default="mobilenet_v2",
        in_files=True,
        foreign="name",
    ),
    Option(
        usage="source=NAME",
        of=lambda trial: trial.model.source,
        help="library that the model comes from; `xla-sweeps models NAME` lists those that have it",
        default="auto",
        choices={
            "auto": "the first of its entry",
            **dict.fromkeys(("applications", "keras_cv", "keras_hub", "hub", "examples"), ""),
            "local": "comes with model=local",
        },
    ),
    Option(
        usage="keras=N",
        of=lambda trial: trial.model.keras,
        help="version of Keras that builds a model of Keras Applications: 3, or 2 (tf_keras)",
        unset="the model's: 3, but 2 for families that Keras 3 dropped",
    ),
    Option(
        usage="resolution=PX",
        of=lambda trial: trial.model.resolution_px,
        resolved=True,
        help="side of the square input, pixels",
        unset="the model's native one",
    ),
    Option(
        usage="batch_size=N",
        of=attrgetter("batch_size"),
        help="images per call; never changed, not even when memory runs out",
        default=4,
    ),
    Option(
        usage="batches=N",
        of=attrgetter("batches"),
        help=f"with scenario={' and '.join(TAKING_BATCHES)}: batches of one call; one predict or "
        "fit gets them all, the other modes loop over them; 8 for fit",
        default=1,
    ),
    Option(
        usage="shapes=[N,...]",
        of=lambda trial: list(trial.shapes) or None,
        help=f"with scenario={Scenario.NEW_SHAPES}: what a new function meets one after the other: "
        "sizes of an image or a sequence, as in [224,256], or batch sizes, as in [b32,b7]",
        unset="the batch size and one less",
    ),
    Option(
        usage="scenario=NAME",
        of=lambda trial: str(trial.scenario),
        help="what one call does",
        default=str(Scenario.CALL),
        choices={str(scenario): facts.meaning for scenario, facts in SCENARIOS.items()},
    ),
    Option(
        usage="optimizer=NAME",
        of=lambda trial: trial.training.optimizer if trial.training else None,
        help=f"with scenario={' and '.join(TRAINING)}: Keras's optimizer",
        default=Training().optimizer,
        choices={
            **{name: "momentum 0.9" if name == "sgd" else "" for name in OPTIMIZERS},
            COMPILED: "your own model's, else sgd; its default unless you give a learning_rate",
        },
    ),
    Option(
        usage="learning_rate=X",
        of=lambda trial: trial.training.learning_rate if trial.training else None,
        help="with scenario=train_step and fit: the optimizer's learning rate; speed does not "
        "depend on it as long as losses are finite",
        default=Training().learning_rate,
    ),
    Option(
        usage="data=PATH",
        of=lambda trial: trial.data.path if trial.data else SYNTHETIC if trial.training else None,
        help="with scenario=fit: what to train on: synthetic, TFRecord files of pictures, or a "
        "folder with a folder of pictures for each class; a call is then an epoch over all of "
        "them, or over batches=N",
        default=SYNTHETIC,
        foreign="name",
    ),
    Option(
        usage="drop_remainder=BOOL",
        of=lambda trial: trial.data.drop_remainder if trial.data else None,
        help="with data=PATH: leave out the last batch of an epoch if it is smaller, which XLA "
        "compiles once more",
        default=False,
    ),
    Option(
        usage="steps_per_execution=N",
        of=attrgetter("steps_per_execution"),
        help="with scenario=fit: batches that fit trains on before it returns to Python, as in "
        "compile(steps_per_execution=N)",
        default=1,
    ),
    Option(
        usage="precision=NAME",
        of=lambda trial: str(trial.precision),
        help="Keras dtype policy",
        default=str(Precision.FLOAT32),
        choices={str(policy): "" for policy in Precision},
    ),
    Option(
        usage="weights=NAME",
        of=lambda trial: "random" if _is_own(trial) else trial.model.weights,
        help="random (it runs the same operations), imagenet, a preset, or a file's path",
        default="random",
        foreign="name",
    ),
    Option(
        usage="seed=N",
        of=attrgetter("seed"),
        help="seed of weights, inputs and the order of modes",
        default=0,
    ),
)

_OWN = (
    Option(
        usage="path=PATH",
        of=_in_recipe("path"),
        resolved=True,
        help="with model=local: a .keras or .h5 file, a SavedModel folder, module:function or "
        "file.py:function; only on the command line",
        unset="none",
        foreign="nothing",
    ),
    Option(
        usage="import=MODULE",
        of=_in_recipe("import"),
        resolved=True,
        help="the module or file.py with the custom layers of a .keras file; only on the command "
        "line",
        unset="none",
        foreign="nothing",
    ),
    Option(
        usage="signature=NAME",
        of=_in_recipe("signature"),
        help="with a SavedModel of your own: the signature that is called",
        unset="its call, else serving_default",
        foreign="name",
    ),
    Option(
        usage="trust_code=BOOL",
        of=lambda trial: True if _is_own(trial) else None,
        resolved=True,
        help="whether the code that the model brings may run; only on the command line",
        default=False,
        foreign="nothing",
    ),
    Option(
        usage="input_spec=[…]",
        of=lambda trial: list(map(_input, trial.model.inputs)) or None if _is_own(trial) else None,
        help="inputs, if the model does not describe them: "
        "[{shape:[224,224,3],dtype:float32,low:0,high:255}]",
        unset="the model's, or as `inputs` has them",
    ),
    Option(
        usage="inputs=FILE",
        of=_in_recipe("inputs"),
        resolved=True,
        help="with model=local: a batch of your own, a .npy or .npz file; every mode must agree on "
        "it too; only on the command line",
        unset="none",
        foreign="nothing",
    ),
)

_EXECUTED = (
    Option(
        usage="backend=NAME",
        help="framework that runs the model, and needs no other; it chooses the modes",
        default="auto",
        choices={"auto": "that of `modes`, else TensorFlow", **dict.fromkeys(BACKENDS, "")},
    ),
    Option(
        usage="jit=VALUE",
        help="the candidate",
        default=True,
        choices={word: f"mode {mode}" for word, mode in JIT_CANDIDATES.items() if word != "none"},
    ),
    Option(
        usage="modes=[A,B]",
        of=lambda trial: list(trial.modes),
        help=f"the modes themselves: {', '.join(SCENARIOS[Scenario.CALL].modes)}, or another "
        "scenario's (docs/options.md); one given twice is an A/A pair: modes=[graph,graph]",
        unset="the scenario's with its candidate, as eager, graph and xla",
    ),
    Option(
        usage="copies=NAME",
        of=attrgetter("copies"),
        help="processes that measure the copies of an A/A pair (a mode that is given twice)",
        default="together",
        choices={
            "together": "one process measures all modes",
            "apart": "each copy has a process of its own; they take turns block by block",
        },
    ),
    Option(
        usage="compile_cache=NAME",
        of=attrgetter("compile_cache"),
        help=f"with scenario={STARTING}: the compiler's cache on disk, in a folder of the trial",
        default="off",
        choices={
            "off": "none",
            "cold": "empty before each start",
            "warm": "filled by an earlier start",
        },
    ),
    Option(
        usage="tf32=BOOL",
        of=attrgetter("tf32"),
        help="TensorFloat-32 on GPUs that have it",
        default=False,
    ),
    Option(
        usage="onednn=BOOL",
        of=attrgetter("runtime.onednn"),
        resolved=True,
        help="oneDNN's kernels, which XLA does not use",
        unset="TensorFlow's choice",
    ),
    Option(
        usage="threads.KEY=N",
        of=lambda trial: {
            "intra": trial.runtime.intra_threads,
            "inter": trial.runtime.inter_threads,
        },
        resolved=True,
        help="threads on the CPU: intra share the work of one operation, inter run operations side "
        "by side",
        unset="one for each core",
        keys={"intra": None, "inter": None},
    ),
    Option(
        usage="xla_flags.NAME=VALUE",
        of=lambda trial: dict(trial.runtime.xla_flags),
        resolved=True,
        help="a flag of XLA (XLA_FLAGS), as in xla_flags.xla_cpu_enable_fast_math=true; several: "
        "xla_flags={NAME:VALUE,NAME:VALUE}",
        unset="XLA's",
        open_keys=True,
    ),
    Option(
        usage="tf_xla_flags.NAME=VALUE",
        of=lambda trial: dict(trial.runtime.tf_xla_flags),
        resolved=True,
        help="a flag of TensorFlow for XLA (TF_XLA_FLAGS), likewise",
        unset="TensorFlow's",
        open_keys=True,
    ),
)

_PRECISION = (
    Option(
        usage="effort=LEVEL",
        of=attrgetter("effort.name"),
        help="how long and how precisely to measure; effort.KEY=VALUE sets one value of a level",
        default="quick",
        choices={
            "quick": "1 replicate",
            "standard": "3",
            "publish": "5",
            "starts": "2 replicates of calls that take seconds",
            "check": "1 of few calls: does it compile",
        },
        keys={setting.name: None for setting in fields(Effort) if setting.name != "name"},
        in_files=True,
        foreign="name",
    ),
)

PURPOSES: Mapping[str, tuple[Option, ...]] = {
    "What is measured": _MEASURED,
    "Your own model": _OWN,
    "How it is executed": _EXECUTED,
    "How precisely": _PRECISION,
    "Where, and how it is shown": ENVIRONMENT,
}
"""The options by the headings of the help text."""

OPTIONS = tuple(option for options in PURPOSES.values() for option in options)

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}

NAMES = tuple(BY_NAME)
"""The top-level keys of the configuration."""

LOGGED = (
    *("variant", "family", "task", "execution_modes", "pretrained", "xla", "device_kind"),
    *("tensorflow", "keras_version", "driver", "cuda", "host", "python", "xla_sweeps", "git"),
    "flags",
    "runtime",
)
"""Keys of a W&B run's config that are no options; W&B sends them back when a run is resumed."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    option.name: tuple(option.choices)
    for option in OPTIONS
    if option.choices and not option.in_files and option.name != "device"  # which has a number
}
"""Options whose choices a `defaults` list may name, with these."""

NESTED = tuple(
    option.name for option in OPTIONS if option.keys or option.open_keys or option.in_files
)
"""Options whose values may be nested: `effort: {block_s: 1}` is `effort.block_s=1`."""

RUNTIME = ("onednn", "threads", "xla_flags", "tf_xla_flags")
"""Options of TensorFlow itself, which `overrides.runtime_text` puts into one text."""

IDENTIFYING = tuple(option.name for option in OPTIONS if option.of and not option.resolved)
"""Options that tell trials apart."""


def unknown_option(key: str, below: Sequence[str] = ()) -> ConfigError:
    """Error for a key that is no option, or none of those `below` another."""
    names, lister = below or NAMES, "" if below else "xla-sweeps --help"
    return unknown_name("option", key, names, listed=len(below), lister=lister)


def missing_option(name: str) -> ConfigError:
    """Error for a configuration without an option, which a first file of the user's own may be."""
    return ConfigError(f"{name} is missing; add config to the defaults of the --config-name file")


def name_of(value: Any) -> str:
    """The name of a choice, given as the name or as the mapping that it stands for; "" for none."""
    name = value.get("name") if isinstance(value, Mapping) else value
    return "" if name is None else str(name)
