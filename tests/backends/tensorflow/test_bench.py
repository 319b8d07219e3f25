"""Work of a replicate before it measures: the float64 reference and the counts, if needed."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from catalog_models import of_catalog
from desk import Heard, desk_of, prepare_modes, set_up, warm_modes
from factories import TRIAL

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.tensorflow import memory, modes
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.schema.measurement import Flag, Status
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import Precision, ReplicateJob, Trial
from xla_sweeps.trial import protocol

pytestmark = pytest.mark.tf

SMALL = replace(TRIAL, model=of_catalog("mnist_mlp", "examples", 8), batch_size=2)

PUBLISH = replace(SMALL, effort=replace(SMALL.effort, always_reference=True))


def job(trial: Trial, replicate: int = 0, modes: tuple[str, ...] = ("graph",)) -> ReplicateJob:
    return ReplicateJob(trial=trial, replicate=replicate, modes=modes, order_seed=1)


def inexact(bench: Bench, by: float, position: int = 0, **changes: Any) -> Bench:
    """The bench, whose eager outputs of an input are off by noise of this size."""
    outputs = [bench.eager, *bench.later]
    head = outputs[position][0]
    noise = np.random.default_rng(1).normal(size=head.shape)
    outputs[position] = [head + by * np.abs(head).max() * noise]
    moved = {"eager": outputs[0], "later": outputs[1:]}
    return replace(bench, **{"seconds": {}, "references": {}, **moved, **changes})


@pytest.fixture(scope="module")
def bench() -> Bench:
    with tf.device("/device:CPU:0"):
        return set_up(job(SMALL), Heard())


def test_what_building_left_behind_is_not_taken_for_what_is_kept(bench: Bench) -> None:
    def leave_behind() -> None:
        cycle: list[Any] = [tf.zeros(2**23)]
        cycle.append(cycle)

    if memory.counted_bytes(bench.device, "current") is None:
        pytest.skip("TensorFlow's allocator does not count here")
    gc.collect()
    bench.note_kept()
    other = replace(bench)
    gc.disable()
    try:
        leave_behind()
        other.note_kept()
    finally:
        gc.enable()
    assert other.not_counted_bytes == pytest.approx(bench.not_counted_bytes, abs=2**20)


def test_the_reference_is_computed_once_a_mode_is_not_close_to_eager(bench: Bench) -> None:
    prepared = prepare_modes(job(SMALL), bench, Heard())
    assert prepared["graph"].outcome.status is Status.OK
    assert not bench.references
    assert "reference" not in bench.seconds
    noisy = inexact(bench, 1e-3)
    outcome: Any = prepare_modes(job(SMALL), noisy, Heard())["graph"].outcome
    assert noisy.references[0]
    assert outcome.status is Status.OK  # eager is further from float64 than graph is
    assert outcome.agreement.rmse_ref_rel is not None


def test_random_numbers_of_the_model_are_not_eagers_own_error(bench: Bench) -> None:
    """A mode 0.9 % off beside noise of 0.5 %: by float64 alone it would be as close as eager."""
    noisy = inexact(bench, 5e-3)
    assert prepare_modes(job(SMALL), noisy, Heard())["graph"].outcome.status is Status.OK
    noisy = inexact(bench, 5e-3, deterministic=False)
    outcome = prepare_modes(job(SMALL), noisy, Heard())["graph"].outcome
    assert outcome.status is Status.NONDETERMINISTIC
    assert not noisy.references


def test_publish_computes_the_reference_in_the_first_replicate() -> None:
    assert set_up(job(PUBLISH, 0), Heard()).references[0]
    assert not set_up(job(PUBLISH, 1), Heard()).references


def test_the_float64_model_is_gone_before_the_next_mode(bench: Bench) -> None:
    def wide() -> int:
        alive = [each for each in gc.get_objects() if isinstance(each, keras.Variable)]
        assert "float32" in {variable.dtype for variable in alive}
        return sum(variable.dtype == "float64" for variable in alive)

    gc.collect()
    gc.disable()
    try:
        others = wide()  # of earlier tests in this process
        replace(bench, seconds={}, references={}).add_reference(Heard().send)
        assert wide() == others
    finally:
        gc.enable()


def planted(bench: Bench, position: int, factor: float) -> Bench:
    """The bench, whose XLA mode multiplies its output for one of the inputs."""
    mark = float(bench.inputs[position][0, 0])
    right = bench.built.call

    class Wrong(Bench):
        def make(self, mode: Mode) -> modes.ModeExecutable:
            if mode is not Mode.XLA:
                return super().make(mode)

            def call(batch: Any) -> Any:
                return right(batch) * tf.where(tf.equal(batch[0, 0], mark), factor, 1.0)

            return modes.ModeExecutable.bind(call, mode, self.inputs)

    given = {each.name: getattr(bench, each.name) for each in fields(bench)}
    return Wrong(**{**given, "references": {}})


@pytest.mark.parametrize(
    ("position", "factor", "says"),
    [
        pytest.param(0, 2.0, "outputs differ", marks=pytest.mark.exhaustive),
        pytest.param(1, 1.01, "on input 2:", marks=pytest.mark.exhaustive),
        (2, 2.0, "on input 3:"),
    ],
)
def test_a_mode_that_is_wrong_on_one_of_the_inputs_is_refused(
    bench: Bench, position: int, factor: float, says: str
) -> None:
    wrong = planted(bench, position, factor)
    outcomes: Any = warm_modes(job(SMALL, modes=("graph", "xla")), wrong, Heard())
    assert outcomes["graph"].status is Status.OK
    assert outcomes["xla"].status is Status.WRONG_RESULT
    assert says in outcomes["xla"].failure.message


def test_each_input_has_a_reference_of_its_own_by_one_model(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = mock.Mock(side_effect=building.float64_twin)
    monkeypatch.setattr(building, "float64_twin", twins)
    noisy = inexact(bench, 1e-3, position=1)
    outcome = warm_modes(job(SMALL), noisy, Heard())["graph"]
    assert [bool(reference) for reference in noisy.references.values()] == [True] * 3
    twins.assert_called_once()
    assert outcome.status is Status.OK  # eager is further from float64 than graph is
    expected = bench.eager_outputs([bench.inputs[2]])
    assert bench.eager_of(2)[0] == pytest.approx(expected[0])


def test_where_the_references_fail_a_later_input_is_compared_with_eager_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mode is compared again as long as there is more to try: this is tried once."""
    tried = list[int]()

    def compute_references(self: Bench) -> None:
        tried.extend(self.references)
        raise MemoryError

    monkeypatch.setattr(Bench, "compute_references", compute_references)
    wrong = inexact(bench, 1e-2, position=1)
    assert warm_modes(job(SMALL), wrong, Heard())["graph"].status is Status.WRONG_RESULT
    assert tried == [0, 1, 2]


def test_an_error_of_a_percent_on_a_later_input_asks_for_a_reference() -> None:
    """In half precision, where it would pass without one."""
    half = set_up(job(replace(SMALL, precision=Precision.MIXED_BFLOAT16)), Heard())
    outputs = [half.eager_of(1)[0] * 1.012]
    assert not half.compare(outputs, 1).ok
    assert half.add_reference(Heard().send)
    assert half.references[1]
    half.references = dict.fromkeys(half.references)
    assert half.compare(outputs, 1).ok, "where there can be none"


def test_an_input_on_which_eager_is_exact_is_judged_by_its_error_on_others(bench: Bench) -> None:
    exact, scale = bench.eager_outputs(bench.inputs[:1]), np.abs(bench.eager[0]).max()
    noise = 1e-3 * scale * np.random.default_rng(1).normal(size=exact[0].shape)
    later = [head.astype(np.float64) for head in bench.later[0]]
    judged = replace(bench, moves=[], references={0: [exact[0] - noise], 1: later})
    agreed = judged.compare([later[0] + 1.1 * noise], 1)
    assert agreed.ok, agreed.reason
    assert not judged.compare([later[0] + 4 * noise], 1).ok
    thousandfold = replace(judged, eager=[1e3 * exact[0], *bench.eager[1:]])
    thousandfold.references = {0: [1e3 * (exact[0] - noise)], 1: later}
    assert thousandfold.compare([later[0] + 1.1 * noise], 1).ok
    assert not thousandfold.compare([later[0] + 4 * noise], 1).ok, "errors grow with outputs"
    alone = replace(judged, references={0: [exact[0]], 1: later})
    assert not alone.compare([later[0] + 1.1 * noise], 1).ok
    unknown = replace(judged, references={0: [exact[0] - noise]})
    assert not unknown.compare([later[0] + 1.1 * noise], 1).ok


def keeping(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A call that keeps its answers while it runs eagerly."""
    answers: dict[bytes, Any] = {}

    def kept(batch: Any) -> Any:
        if not tf.executing_eagerly():
            return call(batch)
        key = batch.numpy().tobytes()
        if key not in answers:
            answers[key] = call(batch)
        return answers[key]

    return kept


def keeping_three(call: Callable[[Any], Any], bench: Bench) -> Callable[[Any], Any]:
    """A call that keeps three answers in variables, and replaces the oldest."""
    batch, output = bench.inputs[0], bench.built.call(bench.inputs[0])
    keys = tf.Variable(tf.zeros([3, *batch.shape]))
    answers = tf.Variable(tf.zeros([3, *output.shape]))
    oldest = tf.Variable(0)
    large = tf.random.stateless_normal((512, 512), (1, 2))

    def slowly(given: Any) -> Any:
        work = large + tf.reduce_mean(given)
        result = call(given) + 0 * tf.reduce_sum(work @ work)
        place = oldest % 3
        keys.assign(tf.tensor_scatter_nd_update(keys, [[place]], [given]))
        answers.assign(tf.tensor_scatter_nd_update(answers, [[place]], [result]))
        oldest.assign_add(1)
        return result

    def kept(given: Any) -> Any:
        same = tf.reduce_all(tf.equal(keys, given[None]), axis=[1, 2])
        return tf.cond(
            tf.reduce_any(same),
            lambda: tf.gather(answers, tf.argmax(tf.cast(same, tf.int32))),
            lambda: slowly(given),
        )

    return kept


@pytest.mark.parametrize("mode", ["eager", "xla"])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_mode_that_keeps_its_answers_is_flagged(bench: Bench, mode: str, keeps: bool) -> None:
    call = keeping(bench.built.call) if mode == "eager" else keeping_three(bench.built.call, bench)
    built = replace(bench.built, call=call) if keeps else bench.built
    heard, alone = Heard(), job(SMALL, modes=(mode,))
    made = replace(bench, built=built, seconds={}, references={})
    made.run_eagerly(heard.send)
    desk = desk_of(alone, made, heard)
    desk.answer(protocol.Prepare(mode=mode))
    desk.answer(protocol.WarmUp(mode=mode))
    desk.answer(protocol.TimeBlock(mode=mode, calls=3, settle=True, singles=21))
    desk.answer(protocol.Finish(calls={mode: 3}))
    flags = {event.flagged.flag for event in heard.events if isinstance(event, protocol.Caveat)}
    assert flags == ({Flag.SLOW_ON_NEW_INPUTS} if keeps else set())


def test_inputs_are_new_however_often_they_are_renewed() -> None:
    inputs = [tf.random.stateless_uniform((2, 16), (seed, 0)) for seed in range(3)]
    executable = modes.ModeExecutable.bind(lambda batch: batch, Mode.GRAPH, inputs)
    values = []
    for _ in range(30):
        assert executable.renew()
        values += [batch.numpy().tobytes() for batch in executable.inputs]
    assert len(set(values)) == 90
