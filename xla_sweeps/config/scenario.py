"""Read what one call of a trial does: its scenario, modes, training and batches."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from xla_sweeps.config import catalog, local_model, values
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.backend import backend_named
from xla_sweeps.schema.modes import (
    DEFAULT_BACKEND,
    JIT_CANDIDATES,
    MODES,
    SCENARIOS,
    TAKING_BATCHES,
    Entry,
    Execution,
    Mode,
    Scenario,
    by_backend,
    implied_modes,
    label_modes,
    mode_in,
    mode_of,
    parse,
)
from xla_sweeps.schema.options import SYNTHETIC
from xla_sweeps.schema.trial import Copies, Data, ModelSpec, Training, Trial, typed
from xla_sweeps.system import pictures

LEGACY = "tf_keras"
"""The library that is Keras 2."""

MAX_MODES = 12
"""Modes of one trial, copies of a mode included."""

KEYS = ("optimizer", "learning_rate", "data", "drop_remainder")

MAX_RATE = 10

MAX_BATCHES = 10_000

AUTO = "auto"
"""The value of `backend` that leaves it to the modes."""

FIT_BATCHES = 8
"""Batches of an epoch of `fit` on drawn values, unless the user says how many."""

_TASKS = ("classification", "segmentation", "video", "custom")
"""Tasks whose models give class scores; of the user's own model (`custom`) the outputs decide."""


def scenario_of(document: Mapping[str, Any], spec: ModelSpec) -> Scenario:
    """The scenario of a trial.

    Raises:
        ConfigError: its name is wrong, or the model is not made for it.
    """
    scenario = Scenario(values.choice(document, "scenario"))
    if scenario is Scenario.DETECT and spec.task != "detection":
        detectors = [
            entry.name for entry in catalog.load_catalog().values() if entry.task == "detection"
        ]
        raise ConfigError(
            f"scenario=detect: {spec.name} is not a detector; detectors: {', '.join(detectors)}"
        )
    return scenario


def candidate_mode(jit: Any, scenario: Scenario = Scenario.CALL) -> Mode:
    """The candidate that a value of `jit` chooses in a scenario.

    Raises:
        ConfigError: the value is none of true, false, null, auto.
    """
    word = _jit_word(jit)
    if (isinstance(jit, int | float) and not isinstance(jit, bool)) or word not in JIT_CANDIDATES:
        raise ConfigError(
            f"jit={jit}: allowed are true (xla), false (graph), null (default) and auto "
            "(autocluster)"
        )
    return SCENARIOS[scenario].jit[word]


def modes_of(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario
) -> tuple[str, ...]:
    """The labels of the modes of a trial.

    Raises:
        ConfigError: one is no mode of the scenario, or they cannot be measured in one trial.
    """
    candidate = candidate_mode(document["jit"], scenario)
    given = document["modes"]
    backend = values.choice(document, "backend")
    if given is None:
        return label_modes(_implied(document, explicit, scenario, backend))
    if isinstance(given, str):
        given = [word for word in re.split(r"[\s,]+", given.strip("[]() ")) if word]
    if not isinstance(given, list) or not given:
        raise ConfigError(f"modes={given}: give a list, as in modes=[eager,graph,xla]")
    names = [str(mode) for mode in SCENARIOS[scenario].modes]
    modes = []
    for name in given:
        if name not in names:
            _refuse_mode(str(name), scenario)
        modes.append(MODES[name])
    others = [mode for mode in modes if mode.backend != backend]
    if others and backend != AUTO:
        raise ConfigError(
            f"backend={backend}: {others[0]} is a mode of {backend_named(others[0].backend).title};"
            " leave one of the two out"
        )
    if SCENARIOS[scenario].trains and len(by_backend(modes)) > 1:
        raise ConfigError(
            f"scenario={scenario}: the modes of one trial are of one backend; measure each with "
            "backend=NAME"
        )
    if len(modes) > MAX_MODES:
        raise ConfigError(f"modes: {len(modes):,} of them; a trial compares at most {MAX_MODES}")
    if "jit" in explicit and "modes" in explicit and candidate not in modes:
        raise ConfigError(
            f"conflicting overrides: jit={_jit_word(document['jit'])} asks for the mode "
            f"{candidate}, which is not in modes=[{','.join(modes)}]; give one of the two"
        )
    return label_modes(modes)


def _implied(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario, backend: str
) -> tuple[Mode, ...]:
    """The modes of a trial that names none."""
    backend = DEFAULT_BACKEND if backend == AUTO else backend
    word = _jit_word(document["jit"])
    modes = implied_modes(scenario, word, backend)
    title, lacks = backend_named(backend).title, backend_named(backend).lacks
    if not modes:
        able = [name for name, facts in SCENARIOS.items() if implied_modes(name, word, backend)]
        raise ConfigError(
            f"backend={backend}: {title} does not measure scenario={scenario}; it has "
            f"{', '.join(able)} ({lacks[scenario]})"
        )
    if backend != DEFAULT_BACKEND and "jit" in explicit and word != "true":
        raise ConfigError(
            f"jit={word}: {title} has the modes {', '.join(modes)} only; leave jit out"
        )
    return modes


def copies_of(document: Mapping[str, Any], modes: Sequence[str]) -> Copies:
    """The processes that measure the copies of a mode.

    Raises:
        ConfigError: no mode has a copy.
    """
    if values.choice(document, "copies") == "together":
        return "together"
    if all(parse(label)[1] == 1 for label in modes):
        raise ConfigError(
            f"copies=apart: no mode of modes=[{','.join(modes)}] is given twice; use an A/A pair, "
            "as in modes=[graph,graph]"
        )
    return "apart"


def training_of(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario, spec: ModelSpec
) -> Training | None:
    """The training of a trial; None if it trains nothing.

    Raises:
        ConfigError: a value is wrong, the trial trains nothing, or the model cannot be trained.
    """
    if not SCENARIOS[scenario].trains:
        for key in KEYS:
            if key in explicit and document[key] not in (None, SYNTHETIC):
                right = Scenario.FIT if key in KEYS[2:] else Scenario.TRAIN_STEP
                raise ConfigError(
                    f"{key}={typed(document[key])}: scenario={scenario} trains nothing; add "
                    f"scenario={right} or remove {key}"
                )
        return None
    if spec.library == "tensorflow_hub" or spec.recipe.get("kind") == "saved_model":
        raise ConfigError(
            f"scenario={scenario}: {spec.name} from source={spec.source} is a SavedModel, a graph "
            "without training; use a Keras model"
        )
    if spec.task not in _TASKS:
        raise ConfigError(
            f"scenario={scenario}: {spec.name} is for the task {spec.task}, which has no loss "
            f"here; those that have one: {', '.join(_TASKS[:-1])}"
        )
    return Training(
        optimizer=values.choice(document, "optimizer"),
        learning_rate=values.number(document, "learning_rate", at_most=MAX_RATE),
        data=_data(document, explicit, scenario),
    )


def remarks_of(document: Mapping[str, Any], trial: Trial) -> list[str]:
    """A line on files beside the pictures of a trial that are left out, if there are any."""
    if trial.training is None or trial.training.data is None:
        return []
    given = str(document["data"])
    remark = pictures.find(trial.training.data.path, shown=given).remark
    return [f"data={given}: {remark}"] if remark else []


def batches_of(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario, data: Data | None
) -> int:
    """Number of batches of one call; all of an epoch unless the user says how many.

    Raises:
        ConfigError: no number, more than there are, or several in a scenario whose calls take one
            batch.
    """
    facts = SCENARIOS[scenario]
    batches = values.integer(document, "batches", at_least=1, at_most=MAX_BATCHES)
    if batches > 1 and not facts.takes_batches:
        raise ConfigError(
            f"batches={batches}: a call of scenario={scenario} takes one batch; use "
            f"scenario={' or '.join(TAKING_BATCHES)}, or batch_size"
        )
    is_given = "batches" in explicit or batches != 1
    if data is None:
        return FIT_BATCHES if facts.is_epoch and not is_given else batches
    size = values.integer(document, "batch_size", at_least=1)
    whole, rest = divmod(data.pictures, size)
    epoch = whole + (rest > 0 and not data.drop_remainder)
    given = document["data"]
    if not is_given and epoch > MAX_BATCHES:
        raise ConfigError(
            f"data={given}: an epoch is {epoch:,} batches of {size}, and a call handles at most "
            f"{MAX_BATCHES:,}; add batches=100"
        )
    if is_given and batches > epoch:
        raise ConfigError(
            f"batches={batches:,}: data={given} has {epoch:,} batches of {size}; use "
            f"batches={epoch} or less"
        )
    return batches if is_given else epoch


def steps_per_execution_of(
    document: Mapping[str, Any], scenario: Scenario, modes: Sequence[str], *, batches: int
) -> int:
    """Number of batches that `fit` trains on in one execution.

    Raises:
        ConfigError: no number, more than an epoch has, or no mode calls `fit`.
    """
    key = "steps_per_execution"
    steps = values.integer(document, key, at_least=1, at_most=MAX_BATCHES)
    if steps == 1:
        return 1
    if not SCENARIOS[scenario].is_epoch:
        instead = {Scenario.PREDICT: "use the modes predict_graph_steps and predict_xla_steps"}
        raise ConfigError(
            f"{key}={steps}: a call of scenario={scenario} calls no fit; "
            f"{instead.get(scenario, f'add scenario={Scenario.FIT}')} or remove {key}"
        )
    if not any(mode_of(label).entry.fits for label in modes):
        raise ConfigError(
            f"{key}={steps}: no mode of modes=[{','.join(modes)}] calls fit; add fit_graph or "
            "fit_xla"
        )
    if steps > batches:
        raise ConfigError(
            f"{key}={steps}: an epoch is {batches} batches; use {key}={batches} or less"
        )
    return steps


def check_fit(modes: Sequence[str], data: Data | None) -> None:
    """Refuse modes that train on arrays where the trial trains on pictures.

    Raises:
        ConfigError: with what to do instead.
    """
    for mode in map(mode_of, modes):
        if data is not None and mode.entry is Entry.FIT_NUMPY:
            instead = mode_in(mode.backend, (Entry.FIT, mode.execution, mode.steps))
            raise ConfigError(
                f"modes: {mode} trains on arrays in memory, not on the files of data; use "
                f"{instead}, or remove data"
            )


def check_pictures(spec: ModelSpec, data: Data | None, given: Any) -> None:
    """Refuse pictures for a model that takes none, as far as that is known before it is built.

    Raises:
        ConfigError: with the inputs that it has.
    """
    shapes = [each.shape for each in spec.inputs] or local_model.declared_shapes(spec)
    if data and spec.source == "examples":  # none of them takes a picture
        shapes = []
    if data and shapes is not None:
        pictures.check_taken(spec.name, shapes, path=given)


def check_predict(
    spec: ModelSpec, scenario: Scenario, modes: Sequence[str], *, batches: int
) -> None:
    """Refuse modes that this model or this number of batches does not have.

    Raises:
        ConfigError: with what to do instead.
    """
    if scenario is not Scenario.PREDICT:
        return
    if spec.source == "hub" or spec.recipe.get("kind") == "saved_model":
        raise ConfigError(
            f"scenario=predict: {spec.name} from source={spec.source} is no Keras model, so it has "
            "no predict; use scenario=call"
        )
    for mode in map(mode_of, modes):
        if mode.steps and batches == 1:
            raise ConfigError(
                f"modes: {mode} executes several batches at once; add batches=2 or more"
            )
        legacy = LEGACY in (spec.library, spec.recipe.get("library"))
        if mode.execution is Execution.AUTO and legacy:
            raise ConfigError(f'modes: {mode}: tf_keras (Keras 2) has no jit_compile="auto"')


def _refuse_mode(name: str, scenario: Scenario) -> NoReturn:
    """Say which scenario has the mode, or which modes this one has."""
    if elsewhere := [other for other, has in SCENARIOS.items() if name in map(str, has.modes)]:
        raise ConfigError(
            f"modes: {name} is no mode of scenario={scenario}; it belongs to "
            f"scenario={elsewhere[0]}"
        )
    raise unknown_name("execution mode", name, list(map(str, SCENARIOS[scenario].modes)))


def _jit_word(jit: Any) -> str:
    return typed(jit).lower()


def _data(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario
) -> Data | None:
    """The pictures of `data`, as they are now; None for values that are drawn."""
    given = values.text(document, "data")
    if given == SYNTHETIC:
        if document["drop_remainder"] is not None and "drop_remainder" in explicit:
            raise ConfigError(
                f"drop_remainder={typed(document['drop_remainder'])}: only an epoch over "
                "pictures has a smaller last batch; add data=PATH (`xla-sweeps make-data` makes a "
                "small set)"
            )
        return None
    if not SCENARIOS[scenario].is_epoch:
        raise ConfigError(
            f"data={given}: a step of scenario={scenario} trains on values that are drawn; use "
            "scenario=fit"
        )
    path = values.path_of(given).absolute()
    if not path.exists() and difflib.get_close_matches(given, [SYNTHETIC]):
        raise ConfigError(
            f"data={given}: there is no such file or folder; did you mean data={SYNTHETIC}?"
        )
    files = pictures.find(str(path), shown=given)
    drop = values.boolean(document, "drop_remainder")
    size = values.integer(document, "batch_size", at_least=1)
    if files.count < size:
        raise ConfigError(
            f"batch_size={size}: data={given} has {files.count:,} pictures; use batch_size="
            f"{files.count} or less"
        )
    return Data(
        path=str(path), pictures=files.count, fingerprint=files.fingerprint, drop_remainder=drop
    )
