"""A batch of the user's own, and a new model that is first called as his line calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import built_models
import numpy as np
import pytest
from desk import Heard, set_up, warm_modes
from factories import TRIAL

from xla_sweeps.backends.keras.building import float64_twin
from xla_sweeps.schema.measurement import Flag, Flagged, ModeOutcome, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import ReplicateJob, Trial, trial_id
from xla_sweeps.trial import protocol

pytestmark = built_models.IN_A_FOLDER

MODES = ("eager", "graph", "xla")

NET = '''
import keras
import tensorflow as tf

class Top(keras.layers.Layer):
    """Tell if the third score is the largest: XLA compares with NaN as eager does not."""
    def call(self, scores):
        wanted = tf.zeros(tf.shape(scores)[:1], tf.int32) + 2
        return tf.cast(tf.math.in_top_k(wanted, scores, 1), tf.float32)

class Keeps(keras.Model):
    """Doubles its answer where the first call was compiled."""
    factor = None
    def call(self, x):
        if self.factor is None:
            self.factor = 1.0 if tf.executing_eagerly() else 2.0
        return self.factor * tf.reduce_sum(x, axis=1)

class Traced(keras.Model):
    """Doubles its answer wherever it is traced, in the first call and later."""
    def call(self, x):
        return (1.0 if tf.executing_eagerly() else 2.0) * tf.reduce_sum(x, axis=1)

class Opens(keras.Model):
    """Reads a value in its first call, which a compiled call cannot."""
    bias = None
    def call(self, x):
        if self.bias is None:
            self.bias = float(tf.reduce_max(x)) * 0 + 1
        return x + self.bias

class Plain(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)
    def call(self, x):
        return self.dense(x)

class Sums(Plain):
    """Returns a number beside its outputs."""
    def call(self, x):
        return {"outputs": super().call(x), "sum": tf.reduce_sum(x)}

class Ragged(Plain):
    """Returns a ragged tensor and a sparse one."""
    def call(self, x):
        outputs = super().call(x)
        return tf.RaggedTensor.from_tensor(outputs), tf.sparse.from_dense(outputs)

class Turned(keras.Model):
    """Returns complex numbers, which are conjugated where it is traced."""
    def call(self, x):
        numbers = tf.signal.fft(tf.cast(x, tf.complex64))
        return numbers if tf.executing_eagerly() else tf.math.conj(numbers)

class Imaginary(keras.Model):
    def call(self, x):
        return tf.complex(tf.zeros_like(x), x)

class Real(keras.Model):
    """Returns complex numbers whose imaginary parts are rounding alone."""
    def call(self, x):
        return tf.signal.ifft(tf.signal.fft(tf.cast(x, tf.complex64)))

class Drawn(keras.Model):
    """Another model each time that it is built."""
    def __init__(self):
        super().__init__()
        import secrets
        self.factor = 1.0 + secrets.randbelow(1000)
    def call(self, x):
        return self.factor * x

class Off(keras.layers.Layer):
    """Scales its values by one percent more where it is traced."""
    def call(self, x):
        return x * (1.0 if tf.executing_eagerly() else 1.01)

class Scaled(keras.layers.Layer):
    """Multiplies by 0.3, which is rounded otherwise where it is traced."""
    def call(self, x):
        return x * 0.1 * 3.0 if tf.executing_eagerly() else x * 0.3

def half(*more):
    """A model whose layers have a half type of their own, as of a file that was trained so."""
    dense = lambda units, **more: keras.layers.Dense(units, dtype="mixed_bfloat16", **more)
    layers = [dense(64, activation="relu"), dense(3), *more]
    return keras.Sequential([keras.Input((4,)), *layers])

def half_scaled():
    return half(Scaled(dtype="mixed_bfloat16"))

def half_stateful():
    """One whose next answer depends on the last one."""
    lstm = keras.layers.LSTM(3, stateful=True, dtype="mixed_bfloat16")
    return keras.Sequential([keras.Input(batch_shape=(4, 4)), keras.layers.Reshape((4, 1)), lstm])

def half_off():
    return half(Off(dtype="mixed_bfloat16"))

def half_picture():
    """The same on pictures of any size."""
    conv = keras.layers.Conv2D(8, 3, dtype="mixed_bfloat16")
    pool = keras.layers.GlobalAveragePooling2D(dtype="mixed_bfloat16")
    scaled = Scaled(dtype="mixed_bfloat16")
    return keras.Sequential([keras.Input((8, 8, 3)), conv, scaled, pool])

def top():
    scores = keras.Input((4,))
    return keras.Model(scores, Top()(scores))
'''

BATCH = np.array([[0.5, np.nan, 0.7, 0.6], [0.1, 0.2, 0.9, 0.3]], "float32")

FILES = {"net.py": NET}


def trial_of(function: str, given: Mapping[str, Any] = {}, **changes: Any) -> Trial:
    asked = {"input_spec": [{"shape": [4], "high": 1}], **given}
    spec = built_models.own(f"net.py:{function}", **asked)
    return replace(TRIAL, **{"model": spec, "modes": MODES, **changes})


def measure(
    function: str, given: Mapping[str, Any] = {}, **changes: Any
) -> tuple[dict[str, ModeOutcome], list[Flagged]]:
    """The outcomes of a trial of an own model once each mode is warm, and its caveats."""
    trial, heard = trial_of(function, given, **changes), Heard()
    job = ReplicateJob(trial=trial, replicate=1, modes=trial.modes, order_seed=0)
    outcomes = warm_modes(job, set_up(job, heard), heard)
    return outcomes, [one.flagged for one in heard.events if isinstance(one, protocol.Caveat)]


def statuses_of(outcomes: Mapping[str, ModeOutcome]) -> dict[str, Any]:
    return {label: (one.status, one.failure) for label, one in outcomes.items()}


def test_every_mode_must_agree_on_the_users_own_batch() -> None:
    drawn, _ = measure("top", batch_size=len(BATCH))
    assert {one.status for one in drawn.values()} <= {Status.OK, Status.UNVERIFIABLE}
    np.save("batch.npy", BATCH)
    own, _ = measure("top", {"inputs": "batch.npy"}, batch_size=len(BATCH))
    assert [one.status for one in own.values()] == [Status.OK, Status.OK, Status.WRONG_RESULT]
    failure: Any = own["xla"].failure
    assert failure.message == "on your batch: 1 of 2 integers differ from eager's"


def test_the_values_of_the_users_batch_are_no_other_trial() -> None:
    np.save("batch.npy", BATCH)
    trials = trial_of("top"), trial_of("top", {"inputs": "batch.npy"})
    assert len({trial_id(trial, {}) for trial in trials}) == 1


@pytest.mark.parametrize(
    ("function", "kind", "flags"),
    [
        ("Sums", "ok", []),
        ("Keeps", "first_call", []),
        ("Opens", "ok", [Flag.FIRST_CALL]),
        ("Drawn", "ok", []),
        ("Ragged", "ok", []),
    ],
)
def test_a_model_is_first_called_as_by_its_user(
    function: str, kind: str, flags: list[Flag]
) -> None:
    outcomes, caveats = measure(function)
    xla = outcomes["xla"]
    assert (xla.failure.kind if xla.failure else str(xla.status)) == kind
    assert [each.flag for each in caveats if each.flag is not Flag.NO_REFERENCE] == flags
    assert {str(outcomes[label].status) for label in ("eager", "graph")} == {"ok"}


def test_a_mode_that_is_wrong_in_every_call_keeps_its_own_reason() -> None:
    outcomes, _ = measure("Traced")
    failures = [outcomes[label].failure for label in ("graph", "xla")]
    assert [failure.kind for failure in failures if failure] == ["disagreement"] * 2
    assert not any("new model" in failure.message for failure in failures if failure)


@pytest.mark.parametrize(
    ("function", "status"),
    [("Turned", Status.WRONG_RESULT), ("Imaginary", Status.OK), ("Real", Status.OK)],
)
def test_the_imaginary_parts_of_outputs_are_compared(function: str, status: Status) -> None:
    outcomes, _ = measure(function)
    assert [one.status for one in outcomes.values()] == [Status.OK, status, status]


IN_PREDICT = ("eager", "graph_host", "predict_xla")


@pytest.mark.parametrize(
    ("scenario", "modes"), [(Scenario.CALL, MODES), (Scenario.PREDICT, IN_PREDICT)]
)
def test_a_model_of_half_precision_by_its_own_code_is_judged_as_such(
    scenario: Scenario, modes: tuple[str, ...]
) -> None:
    outcomes, _ = measure("half_scaled", scenario=scenario, modes=modes)
    agreed = [one.agreement for one in outcomes.values() if one.agreement]
    assert statuses_of(outcomes) == dict.fromkeys(modes, (Status.OK, None))
    assert len(agreed) == 3
    assert max(one.rmse_rel or 0.0 for one in agreed) > 1e-3, "more than rounding of float32"


def test_a_twin_of_a_twin_computes_in_its_own_type() -> None:
    trial = trial_of("half_scaled")
    job = ReplicateJob(trial=trial, replicate=1, modes=("eager",), order_seed=0)
    bench = set_up(job, Heard())
    exact = float64_twin(trial.model, bench.built, "float32")
    twins = (exact, float64_twin(trial.model, exact))
    assert [each.call(bench.inputs[0]).dtype for each in twins] == ["float32", "float64"]


def test_a_model_of_half_precision_by_its_own_code_is_not_held_to_float32_at_other_sizes() -> None:
    """Freed from its sizes it has its own types again, in which 1e-4 is no rounding."""
    shapes = {"scenario": Scenario.NEW_SHAPES, "shapes": ("8", "12")}
    outcomes, _ = measure("half_picture", {"input_spec": None}, **shapes)
    assert statuses_of(outcomes) == dict.fromkeys(MODES, (Status.OK, None))
    assert max(one.agreement.rmse_rel or 0.0 for one in outcomes.values() if one.agreement) > 1e-3


@pytest.mark.parametrize(
    ("scenario", "modes"), [(Scenario.CALL, MODES), (Scenario.PREDICT, ("eager", "predict_graph"))]
)
def test_a_model_with_a_state_is_compared_in_float32_from_its_first_state_on(
    scenario: Scenario, modes: tuple[str, ...]
) -> None:
    outcomes, _ = measure("half_stateful", scenario=scenario, modes=modes)
    assert statuses_of(outcomes) == dict.fromkeys(modes, (Status.OK, None))


@pytest.mark.parametrize(
    ("scenario", "modes"),
    [(Scenario.CALL, MODES), (Scenario.PREDICT, IN_PREDICT), (Scenario.COLD_START, MODES[1:])],
)
def test_an_error_of_a_percent_does_not_hide_in_the_half_precision_of_a_models_own_code(
    scenario: Scenario, modes: tuple[str, ...]
) -> None:
    outcomes, _ = measure("half_off", scenario=scenario, modes=modes)
    failures = [outcomes[label].failure for label in modes[-2:]]
    assert [failure.message[:11] for failure in failures if failure] == ["in float32:"] * 2
    assert all(outcomes[label].status is Status.OK for label in modes[:-2])
