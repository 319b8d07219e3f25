"""Read what one call of a trial does (its scenario, modes, training and batches), and check it.

A mistake is raised as a `ConfigError` of one line: what is wrong, and what is allowed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from xla_sweeps.config import catalog, local_model, values
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.backend import backend_named
from xla_sweeps.schema.comparisons import by_backend, implied_modes, label_modes
from xla_sweeps.schema.modes import (
    DEFAULT_BACKEND,
    JIT_CANDIDATES,
    MODES,
    SCENARIOS,
    STARTING,
    TAKING_BATCHES,
    Entry,
    Execution,
    Mode,
    Scenario,
    mode_in,
    mode_of,
    parse,
)
from xla_sweeps.schema.options import LOCAL, SYNTHETIC
from xla_sweeps.schema.trial import (
    COMPILED,
    Data,
    Precision,
    Training,
    Trial,
    as_typed,
    parse_shape,
)
from xla_sweeps.system import pictures
from xla_sweeps.system.text import count_noun

LEGACY = "tf_keras"
"""The library that is Keras 2."""

MAX_MODES = 12
"""Modes of one trial, copies of a mode included."""

KEYS = ("optimizer", "learning_rate", "data", "drop_remainder")

MAX_BATCHES = 10_000

MAX_BATCH = 65_536

MAX_SHAPES = 16
"""Different shapes of one trial."""

AUTO = "auto"
"""The value of `backend` that leaves it to the modes."""

FIT_BATCHES = 8
"""Batches of an epoch of `fit` on drawn values, unless the user says how many."""

_LEAST_OF_STARTS_S = 300
"""A mode's seconds of measuring in which enough processes start."""

_TASKS = ("classification", "segmentation", "video", "custom")
"""Tasks whose models give class scores; of the user's own model (`custom`) the outputs decide."""


def candidate_mode(jit: Any, scenario: Scenario = Scenario.CALL) -> Mode:
    """The candidate that a value of `jit` chooses in a scenario."""
    word = _jit_word(jit)
    if (isinstance(jit, int | float) and not isinstance(jit, bool)) or word not in JIT_CANDIDATES:
        why = "allowed are true (xla), false (graph), null (default) and auto (autocluster)"
        raise ConfigError(f"jit={jit}: {why}")
    return SCENARIOS[scenario].jit[word]


def modes_of(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario
) -> tuple[str, ...]:
    """The labels of the modes of a trial."""
    candidate_mode(document["jit"], scenario)
    given = document["modes"]
    if given is None:
        return label_modes(_implied_modes(document, explicit, scenario))
    if isinstance(given, str):
        given = [word for word in re.split(r"[\s,]+", given.strip("[]() ")) if word]
    if not isinstance(given, list) or not given:
        raise ConfigError(f"modes={given}: give a list, as in modes=[eager,graph,xla]")
    allowed = list(map(str, SCENARIOS[scenario].modes))
    for name in map(str, given):
        if name in allowed:
            continue
        if elsewhere := [other for other, has in SCENARIOS.items() if name in map(str, has.modes)]:
            mine = f"it belongs to scenario={elsewhere[0]}"
            raise ConfigError(f"modes: {name} is no mode of scenario={scenario}; {mine}")
        raise unknown_name("execution mode", name, allowed, listed=len(allowed))
    return label_modes([MODES[name] for name in given])


def _implied_modes(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario
) -> tuple[Mode, ...]:
    """The modes of a trial that names none."""
    backend = values.choice(document, "backend")
    backend = DEFAULT_BACKEND if backend == AUTO else backend
    word = _jit_word(document["jit"])
    title = backend_named(backend).title
    own = document["model"].get("name") == LOCAL
    modes = implied_modes(scenario, word, backend, own=own)
    if not modes:
        able = [name for name, facts in SCENARIOS.items() if implied_modes(name, word, backend)]
        raise ConfigError(
            f"backend={backend}: {title} does not measure scenario={scenario}; it has "
            f"{', '.join(able)} ({SCENARIOS[scenario].why_lacking})"
        )
    if backend != DEFAULT_BACKEND and "jit" in explicit and word != "true":
        has = f"{title} has the modes {', '.join(modes)} only"
        raise ConfigError(f"jit={word}: {has}; leave jit out")
    return modes


def _jit_word(jit: Any) -> str:
    return as_typed(jit).lower()


def training_of(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario
) -> Training | None:
    """The training of a trial; None if it trains nothing."""
    if not SCENARIOS[scenario].trains:
        return None
    optimizer = values.choice(document, "optimizer")
    is_own = document["model"].get("name") == LOCAL
    if is_own and not {"optimizer", "learning_rate"} & set(explicit):
        optimizer = COMPILED
    if optimizer == COMPILED and not is_own:
        raise ConfigError("optimizer=compiled: only a model of your own is compiled; name another")
    return Training(
        optimizer=optimizer,
        learning_rate=values.number(document, "learning_rate", at_most=10),
        data=_data(document, explicit, scenario),
    )


def _data(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario
) -> Data | None:
    """The pictures of `data`, as they are now; None for values that are drawn."""
    given = values.text(document, "data")
    if given == SYNTHETIC:
        if document["drop_remainder"] is not None and "drop_remainder" in explicit:
            raise ConfigError(
                f"drop_remainder={as_typed(document['drop_remainder'])}: only an epoch over "
                "pictures has a smaller last batch; add data=PATH"
            )
        return None
    if not SCENARIOS[scenario].is_epoch:
        why = f"a step of scenario={scenario} trains on values that are drawn; use scenario=fit"
        raise ConfigError(f"data={given}: {why}")
    path = values.path_of(given).absolute()
    if not path.exists() and difflib.get_close_matches(given, [SYNTHETIC]):
        raise ConfigError(f"data={given}: there is no such file; did you mean data={SYNTHETIC}?")
    files = pictures.find(str(path), shown=given)
    drop = values.boolean(document, "drop_remainder")
    size = values.integer(document, "batch_size", at_least=1)
    if files.count < size:
        why = f"has {count_noun(files.count, 'picture')}; use batch_size={files.count} or less"
        raise ConfigError(f"batch_size={size}: data={given} {why}")
    count, digest = files.count, files.fingerprint
    return Data(path=str(path), pictures=count, fingerprint=digest, drop_remainder=drop)


def remarks_of(document: Mapping[str, Any], trial: Trial) -> list[str]:
    """Lines on pictures that are left out, and on an effort that is too short for its calls."""
    remarks = []
    long = SCENARIOS[trial.scenario].starts_processes or trial.shapes
    if long and trial.effort.mode_cap_s < _LEAST_OF_STARTS_S:
        what = "compiles each shape" if trial.shapes else "starts a process"
        remarks.append(
            f"scenario={trial.scenario}: a call {what} and takes seconds, so that "
            f"effort={trial.effort.name} ends after a few; effort=starts gives them minutes"
        )
    if trial.data is not None:
        given = str(document["data"])
        remark = pictures.find(trial.data.path, shown=given).remark
        remarks += [f"data={given}: {remark}"] if remark else []
    return remarks


def batches_of(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario, data: Data | None
) -> int:
    """Number of batches of one call; all of an epoch unless the user says how many."""
    batches = values.integer(document, "batches", at_least=1, at_most=MAX_BATCHES)
    is_given = "batches" in explicit or batches != 1
    if data is None:
        return FIT_BATCHES if SCENARIOS[scenario].is_epoch and not is_given else batches
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
        why = f"has {count_noun(epoch, 'batch')} of {size}; use batches={epoch} or less"
        raise ConfigError(f"batches={batches:,}: data={given} {why}")
    return batches if is_given else epoch


def shapes_of(document: Mapping[str, Any], scenario: Scenario) -> tuple[str, ...]:
    """The shapes that a function meets one after the other; none in other scenarios.

    Unless given, they are the batch size and a smaller last batch.
    """
    given, needed = document["shapes"], scenario is Scenario.NEW_SHAPES
    if given is None and needed:
        size = values.integer(document, "batch_size", at_least=1, at_most=MAX_BATCH)
        return f"b{size}", f"b{size - 1 or 2}"
    names = values.read_list(given)
    written = f"shapes=[{','.join(names)}]"
    if names and not needed:
        raise ConfigError(f"{written}: add scenario={Scenario.NEW_SHAPES}")
    if needed:
        check_shapes(names, written, as_in="as in shapes=[224,256,288] or shapes=[b32,b7]")
    return tuple(names)


def check_shapes(names: Sequence[str], written: str, *, as_in: str) -> None:
    """Check that they are shapes, and several; else `ConfigError`, with what was `written`."""
    for name in names:
        try:
            _, batch_size = parse_shape(name)
        except ValueError:
            why = f"{name}: expected sizes or batch sizes, {as_in}"
            raise ConfigError(f"{written}: {why}") from None
        if (batch_size or 0) > MAX_BATCH:
            raise ConfigError(f"{written}: {name}: a batch has at most {MAX_BATCH:,}")
    if not 1 < len(set(names)) <= MAX_SHAPES:
        raise ConfigError(f"{written}: expected from 2 to {MAX_SHAPES} different ones, {as_in}")


def contradictions(
    document: Mapping[str, Any], explicit: Collection[str], trial: Trial
) -> Iterator[str]:
    """Lines on what does not go together in a trial whose values are each in order."""
    yield from _of_the_model(document, trial)
    yield from _of_the_modes(document, explicit, trial)
    yield from _of_the_batches(document, explicit, trial)


def _of_the_model(document: Mapping[str, Any], trial: Trial) -> Iterator[str]:
    """Requirements of a scenario, a precision or pictures on a model."""
    spec, scenario, trains = trial.model, trial.scenario, SCENARIOS[trial.scenario].trains
    kind, place = spec.recipe.get("kind"), f"{spec.name} from source={spec.source}"
    is_saved = spec.source == "hub" or kind == "saved_model"
    sources = dict(document["model"].get("sources") or {})
    own = {name for name, entry in sources.items() if entry.get("dtype_fixed")}
    fixed = [name for name in sources if name in own or catalog.SOURCES[name].dtype_fixed]
    if trial.precision is not Precision.FLOAT32 and (
        spec.source in fixed or kind in ("saved_model", "keras")
    ):
        others = [f", or source={name}" for name in sources if name not in fixed]
        why = f"{place} has fixed dtypes; use precision=float32{others[0] if others else ''}"
        yield f"precision={trial.precision}: {why}"
    if scenario is Scenario.DETECT and spec.task != "detection":
        entries = catalog.load_catalog().values()
        detectors = [entry.name for entry in entries if entry.task == "detection"]
        yield f"scenario=detect: {spec.name} is not a detector; detectors: {', '.join(detectors)}"
    if trains and is_saved:
        why = "is a SavedModel, a graph without training; use a Keras model"
        yield f"scenario={scenario}: {place} {why}"
    if trains and spec.task not in _TASKS:
        yield (
            f"scenario={scenario}: {spec.name} is for the task {spec.task}, which has no loss "
            f"here; those that have one: {', '.join(_TASKS[:-1])}"
        )
    if scenario is Scenario.PREDICT and is_saved:
        why = "is no Keras model, so it has no predict; use scenario=call"
        yield f"scenario=predict: {place} {why}"
    if trial.data:  # as far as the inputs are known before the model is built
        shapes = [each.shape for each in spec.inputs] or local_model.declared_shapes(spec)
        if spec.source == "examples":  # none of them takes a picture
            shapes = []
        if shapes is not None:
            pictures.check_taken(spec.name, shapes, path=document["data"])


def _of_the_modes(
    document: Mapping[str, Any], explicit: Collection[str], trial: Trial
) -> Iterator[str]:
    """Requirements of modes on each other and on other options."""
    modes, scenario = list(map(mode_of, trial.modes)), trial.scenario
    listed = f"modes=[{','.join(trial.modes)}]"
    backend = values.choice(document, "backend")
    others = [mode for mode in modes if mode.backend != backend]
    if others and backend != AUTO:
        yield (
            f"backend={backend}: {others[0]} is a mode of {backend_named(others[0].backend).title};"
            " leave one of the two out"
        )
    if SCENARIOS[scenario].trains and len(by_backend(trial.modes)) > 1:
        why = "the modes of one trial are of one backend; measure each with backend=NAME"
        yield f"scenario={scenario}: {why}"
    if len(modes) > MAX_MODES:
        yield f"modes: {len(modes):,} of them; a trial compares at most {MAX_MODES}"
    candidate = candidate_mode(document["jit"], scenario)
    both = document["modes"] is not None and {"jit", "modes"} <= {*explicit}
    if both and candidate not in modes:
        yield (
            f"conflicting overrides: jit={_jit_word(document['jit'])} asks for the mode "
            f"{candidate}, which is not in modes=[{','.join(modes)}]; give one of the two"
        )
    if trial.copies == "apart" and all(parse(label)[1] == 1 for label in trial.modes):
        why = f"no mode of {listed} is given twice; use an A/A pair, as in modes=[graph,graph]"
        yield f"copies=apart: {why}"
    if trial.compile_cache != "off" and not SCENARIOS[scenario].starts_processes:
        yield (
            f"compile_cache={trial.compile_cache}: a call of scenario={scenario} starts no process "
            f"that could read a cache; add scenario={STARTING}"
        )
    for mode in modes:
        if trial.data and mode.entry is Entry.FIT_NUMPY:
            instead = mode_in(mode.backend, (Entry.FIT, mode.execution, mode.steps))
            yield (
                f"modes: {mode} trains on arrays in memory, not on the files of data; use "
                f"{instead}, or remove data"
            )
        if mode.steps and trial.batches == 1:
            yield f"modes: {mode} executes several batches at once; add batches=2 or more"
        legacy = LEGACY in (trial.model.library, trial.model.recipe.get("library"))
        if scenario is Scenario.PREDICT and mode.execution is Execution.AUTO and legacy:
            yield f'modes: {mode}: tf_keras (Keras 2) has no jit_compile="auto"'


def _of_the_batches(
    document: Mapping[str, Any], explicit: Collection[str], trial: Trial
) -> Iterator[str]:
    """Requirements of batches and the options of training on a scenario."""
    scenario, facts = trial.scenario, SCENARIOS[trial.scenario]
    batches, steps = trial.batches, trial.steps_per_execution
    for key in KEYS:
        if key in explicit and document[key] not in (None, SYNTHETIC) and not facts.trains:
            right = Scenario.FIT if key in KEYS[2:] else Scenario.TRAIN_STEP
            why = f"scenario={scenario} trains nothing; add scenario={right} or remove {key}"
            yield f"{key}={as_typed(document[key])}: {why}"
    if batches > 1 and not facts.takes_batches:
        yield (
            f"batches={batches}: a call of scenario={scenario} takes one batch; use "
            f"scenario={' or '.join(TAKING_BATCHES)}, or batch_size"
        )
    if steps > 1 and not facts.is_epoch:
        instead = {Scenario.PREDICT: "use the modes predict_graph_steps and predict_xla_steps"}
        yield (
            f"steps_per_execution={steps}: a call of scenario={scenario} calls no fit; "
            f"{instead.get(scenario, f'add scenario={Scenario.FIT}')} or remove "
            "steps_per_execution"
        )
    if steps > 1 and not any(mode_of(label).entry.fits for label in trial.modes):
        why = f"no mode of modes=[{','.join(trial.modes)}] calls fit; add fit_graph or fit_xla"
        yield f"steps_per_execution={steps}: {why}"
    if steps > batches:
        why = f"an epoch is {count_noun(batches, 'batch')}; use steps_per_execution={batches}"
        yield f"steps_per_execution={steps}: {why} or less"
