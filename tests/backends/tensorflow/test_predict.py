"""Keras's predict beside the other ways to call a model: what runs, is refused, is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from desk import Heard, prepare_modes
from factories import TRIAL

from xla_sweeps.backends.keras import framework
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.tensorflow.scenarios import predict
from xla_sweeps.backends.tensorflow.scenarios.predict import KerasCalls, PredictBench
from xla_sweeps.schema.measurement import INPUTS, Flag, Flagged, Status
from xla_sweeps.schema.modes import SCENARIOS, Mode, Scenario
from xla_sweeps.schema.trial import InputSpec, ReplicateJob
from xla_sweeps.trial.protocol import Caveat

pytestmark = pytest.mark.tf

MODES = tuple(mode for mode in SCENARIOS[Scenario.PREDICT].modes if mode.backend == "tensorflow")

CPU = "/device:CPU:0"

SHAPE = (6, 6, 2)

M = Mode


class Planted(keras.layers.Layer):
    """Adds nothing, or one where its third batch is computed."""

    wrong = False

    def call(self, batch: Any) -> Any:
        return batch + 1.0 if self.wrong else batch


def model_of(library: Any, *layers: Any) -> Any:
    inputs = library.Input(SHAPE)
    outputs = library.layers.Conv2D(4, 3, activation="relu")(inputs)
    for layer in layers:
        outputs = layer(outputs)
    outputs = library.layers.Flatten()(outputs)
    return library.Model(inputs, library.layers.Dense(3)(outputs))


def bench_of(model: Any, *, batches: int = 1) -> PredictBench:
    spec = replace(TRIAL.model, inputs=(InputSpec(shape=SHAPE),))
    trial = replace(TRIAL, scenario=Scenario.PREDICT, batches=batches, model=spec, batch_size=2)
    loaded = LoadedModel(
        forward=lambda batch: model(batch, training=False),
        inputs=trial.model.inputs,
        variables=model.variables,
        keras_model=model,
        rebuildable=False,
    )
    built = BuiltModel(loaded=loaded, call=loaded.forward)
    inputs = [
        tf.random.stateless_uniform((2, *SHAPE), seed=(index, 0))
        for index in range(INPUTS + batches - 1)
    ]
    bench = PredictBench(
        trial=trial,
        device=CPU,
        built=built,
        inputs=inputs,
        deterministic=True,
        facts=framework.facts_of(trial, built),
    )
    bench.eager = bench.eager_outputs(inputs[:batches])
    return bench


@pytest.fixture(scope="module")
def bench() -> PredictBench:
    return bench_of(model_of(keras, Planted()), batches=3)


def called(bench: PredictBench, mode: Mode) -> Any:
    executable = bench.make(mode)
    executable.first_call_s()
    return executable


def prepared(bench: PredictBench, label: str) -> Heard:
    """Events that are heard where a mode is prepared."""
    heard = Heard()
    job = ReplicateJob(trial=bench.trial, replicate=0, modes=(label,), order_seed=1)
    prepare_modes(job, bench, heard)
    return heard


@pytest.mark.parametrize("mode", MODES)
def test_every_way_is_in_force_computes_what_eager_does_and_is_traced_once(
    bench: PredictBench, mode: Mode
) -> None:
    executable = called(bench, mode)
    evidence = executable.effective(device=CPU)
    assert evidence["in_force"], evidence["reason"]
    assert len(executable.outputs()[0]) == 3 * bench.trial.batch_size
    assert executable.outputs()[0] == pytest.approx(bench.eager[0], rel=1e-4, abs=1e-6)
    traced = executable.traces()
    for _ in range(4):
        executable.step()
    executable.synchronize()
    assert executable.traces() == traced
    assert not executable.effective(device="/device:GPU:0")["in_force"]
    if mode.entry.is_method:
        assert evidence["jit_compile"] is ("xla" in mode)  # Keras chooses none on a CPU
        assert bool(evidence["xla_functions"]) is ("xla" in mode)


def test_one_call_takes_all_batches_from_the_next_input_on(bench: PredictBench) -> None:
    (expected,) = bench.eager_outputs(bench.inputs[1:4])
    for mode in (M.GRAPH, M.PREDICT_GRAPH, M.PREDICT_ON_BATCH_GRAPH):
        executable = called(bench, mode)
        assert executable.position == 1
        executable.step()
        seen = np.concatenate([np.asarray(head) for head in tf.nest.flatten(executable.last)])
        assert len(seen) == 3 * bench.trial.batch_size
        assert seen == pytest.approx(executable.outputs(1)[0], rel=1e-4, abs=1e-6)
        assert seen == pytest.approx(expected, rel=1e-4, abs=1e-6), "the same in each"


def test_each_way_has_a_setting_of_its_own_and_shares_the_layers(bench: PredictBench) -> None:
    compiled, plain = called(bench, M.PREDICT_XLA), called(bench, M.PREDICT_GRAPH)
    assert isinstance(compiled, KerasCalls)
    assert isinstance(plain, KerasCalls)
    assert compiled.model.jit_compile
    assert not plain.model.jit_compile
    assert compiled.model.weights[0] is plain.model.weights[0]
    assert not bench.built.loaded.keras_model.compiled


def test_numpy_goes_in_and_comes_out_and_the_copies_are_timed_alone(bench: PredictBench) -> None:
    executable = called(bench, M.XLA_HOST)
    executable.step()
    assert all(isinstance(head, np.ndarray) for head in tf.nest.flatten(executable.last))
    copies = executable.extras()["copies_s"]
    assert sorted(copies) == ["input", "output"]
    assert all(seconds > 0 for seconds in copies.values())
    for mode in (M.XLA, M.PREDICT_XLA):
        assert called(bench, mode).extras() == {}


@pytest.mark.parametrize(
    ("seconds", "copies"), [(-1.0, predict.FEWEST_COPIES), (1e9, predict.COPIES)]
)
def test_copies_are_not_timed_by_many_calls_where_these_are_long(
    bench: PredictBench, seconds: float, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "COPYING_S", seconds)
    executable, calls = called(bench, M.GRAPH_HOST), list[Any]()
    function = executable.function

    def counted(batch: Any) -> Any:
        calls.append(batch)
        return function(batch)

    executable.function = counted
    assert executable.extras()["copies_s"]["output"] > 0
    assert len(calls) == copies * bench.trial.batches


def test_a_setting_that_keras_reports_but_does_not_use_is_caught(bench: PredictBench) -> None:
    executable = called(bench, M.PREDICT_GRAPH)
    assert isinstance(executable, KerasCalls)
    says = type("Says", (), {"jit_compile": True, "run_eagerly": False})()
    evidence, problems = replace(executable, mode=M.PREDICT_AUTO, model=says).proof(CPU)
    assert evidence["jit_compile"] is True
    assert problems == ["Keras says that it uses XLA, but XLA compiles nothing that it traced"]


@pytest.fixture
def planted(bench: PredictBench) -> Iterator[PredictBench]:
    (layer,) = (each for each in bench.built.loaded.keras_model.layers if isinstance(each, Planted))
    layer.wrong = True
    yield bench
    layer.wrong = False


def test_a_way_that_computes_something_else_is_refused(planted: PredictBench) -> None:
    heard = prepared(planted, "predict_graph")
    assert heard.outcomes["predict_graph"].status is Status.WRONG_RESULT


def test_new_shapes_after_the_first_call_count_as_traces(bench: PredictBench) -> None:
    executable = called(bench, M.PREDICT_GRAPH)
    executable.effective(device=CPU)
    traced = executable.traces()
    executable.model.predict(np.zeros((5, *SHAPE), np.float32), batch_size=5, verbose=0)
    assert executable.traces() == traced + 1


def test_what_xla_compiles_inside_is_told_where_keras_traces() -> None:
    bench = bench_of(model_of(keras, keras.layers.Conv2D(4, 3, groups=2)))
    assert Caveat(Flagged(Flag.CONTAINS_XLA)) in prepared(bench, "predict_graph").events
    assert not bench.facts.fingerprint, "a graph of Keras has more than the model's operations"


def test_keras_2_has_its_own_predict() -> None:
    bench = bench_of(model_of(tf_keras), batches=2)
    for mode in (M.PREDICT, M.PREDICT_XLA, M.PREDICT_ON_BATCH_GRAPH, M.PREDICT_GRAPH_STEPS):
        executable = called(bench, mode)
        assert isinstance(executable, KerasCalls)
        assert isinstance(executable.model, tf_keras.Model)
        evidence = executable.effective(device=CPU)
        assert evidence["in_force"], evidence["reason"]
        assert evidence["jit_compile"] is (mode is M.PREDICT_XLA)
        assert executable.outputs()[0] == pytest.approx(bench.eager[0], rel=1e-4, abs=1e-6)
        traced = executable.traces()
        executable.step()
        assert executable.traces() == traced
