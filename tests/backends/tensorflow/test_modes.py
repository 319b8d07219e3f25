"""Execution modes: each is proved to be in effect, and a mode that is not is detected."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import SCENARIOS, Mode, Scenario

pytestmark = pytest.mark.tf

CPU = "/device:CPU:0"

KERNEL = tf.random.stateless_normal((3, 3, 3, 8), seed=(1, 2))

INPUTS = [tf.random.stateless_uniform((2, 16, 16, 3), seed=(index, 0)) for index in range(3)]


MODES = tuple(mode for mode in SCENARIOS[Scenario.CALL].modes if mode.backend == "tensorflow")


def network(images: tf.Tensor) -> tf.Tensor:
    for _ in range(3):
        images = tf.tanh(tf.nn.conv2d(images, KERNEL, 1, "SAME")[..., :3])
    return tf.reduce_mean(images, axis=(1, 2))


def prepared(mode: Mode) -> modes.ModeExecutable:
    executable = modes.ModeExecutable.bind(network, mode, INPUTS)
    executable.first_call_s()
    return executable


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_proved_to_be_in_force_and_computes_the_same(mode: Mode) -> None:
    executable = prepared(mode)
    assert executable.outputs(1)[0] == pytest.approx(np.asarray(network(INPUTS[1])), abs=1e-5)
    evidence = executable.effective(device=CPU)
    assert evidence["in_force"], evidence["reason"]
    assert evidence["device"] == ["/job:localhost/replica:0/task:0/device:CPU:0"]
    if mode is not Mode.EAGER:
        assert evidence["jit_compile"] == modes.JIT_COMPILE[mode.execution]
        assert (evidence["xla_clusters"] > 0) == (mode is Mode.AUTOCLUSTER)


def test_a_model_that_returns_no_tensors_is_told_so() -> None:
    """Objects of other classes: test_engines.py."""
    numbers = (number for number in range(3))
    executable = modes.ModeExecutable.bind(lambda batch: numbers, Mode.EAGER, INPUTS)
    with pytest.raises(ConfigError, match="the model returned a generator; tensors are needed"):
        executable.outputs()


def test_auto_clustering_does_not_leak_into_the_modes_beside_it() -> None:
    clustered = prepared(Mode.AUTOCLUSTER)
    clustered.step()
    plain = prepared(Mode.GRAPH)
    assert clustered.clusters > 0
    assert plain.clusters == 0
    clustered.prepare()
    assert tf.config.optimizer.get_jit() == "autoclustering"
    plain.prepare()
    assert not tf.config.optimizer.get_jit()


def test_a_mode_that_is_not_in_force_is_caught() -> None:
    executable = prepared(Mode.XLA)
    executable.concrete = prepared(Mode.GRAPH).concrete
    evidence = executable.effective(device=CPU)
    assert not evidence["in_force"]
    assert evidence["reason"] == "jit_compile is False, expected True"
    clustered = prepared(Mode.AUTOCLUSTER)
    clustered.clusters = 0
    assert clustered.effective(device=CPU)["reason"] == "auto-clustering made no clusters"
    plain = prepared(Mode.GRAPH)
    plain.clusters = 2
    assert "auto-clusters run in graph mode" in plain.effective(device=CPU)["reason"]


def test_a_mode_on_another_device_is_caught() -> None:
    evidence = prepared(Mode.GRAPH).effective(device="/device:GPU:0")
    assert not evidence["in_force"]
    assert "not on /device:GPU:0" in evidence["reason"]


CPU_0, GPU_0 = "/job:localhost/device:CPU:0", "/job:localhost/device:GPU:0"


@pytest.mark.parametrize(
    ("outputs", "wrong", "elsewhere"),
    [
        ([(GPU_0, True)], False, []),
        ([(CPU_0, True)], True, [CPU_0]),
        ([(GPU_0, True), (CPU_0, False)], False, [CPU_0]),
        ([(GPU_0, True), (CPU_0, True)], False, [CPU_0]),
        ([(CPU_0, True), (GPU_0, False)], True, [CPU_0]),
        ([(CPU_0, False)], True, [CPU_0]),
        ([(GPU_0, False), (CPU_0, False)], False, [CPU_0]),
    ],
)
def test_an_integer_in_host_memory_is_no_proof_of_a_wrong_device(
    outputs: list[tuple[str, bool]], wrong: bool, elsewhere: list[str]
) -> None:
    problems, found_elsewhere = modes.find_misplaced(outputs, device="/device:GPU:0")
    assert (bool(problems), found_elsewhere) == (wrong, elsewhere)


def test_functions_run_eagerly_are_caught() -> None:
    executable = prepared(Mode.GRAPH)
    tf.config.run_functions_eagerly(True)
    try:
        assert "nothing runs as a graph" in executable.effective(device=CPU)["reason"]
    finally:
        tf.config.run_functions_eagerly(False)


def test_an_operation_that_xla_cannot_compile_is_named() -> None:
    def pooled(images: tf.Tensor) -> tf.Tensor:
        return tf.nn.max_pool_with_argmax(images, 2, 2, "SAME")[0]

    executable = modes.ModeExecutable.bind(pooled, Mode.XLA, INPUTS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="MaxPoolWithArgmax"):
        executable.first_call_s()
