"""Checks that plant errors in a mode, for `engine_checks.py`."""

from __future__ import annotations

import gc
import pkgutil
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import keras
import numpy as np
from engine_desk import ENGINE, FRAMEWORK, MODES, PLANTED, Desk, network

from xla_sweeps.schema.modes import Scenario
from xla_sweeps.worker import replicate


def normalized() -> Any:
    return network(keras.layers.BatchNormalization)


SETTLED = 8
"""Calls after which a mode changes that changes late."""

LAST = np.array([[0.0], [0.0], [0.0], [1.0]], np.float32)

PLANTED_IN: dict[str, Any] = {"wrong in the last sample": LAST, "eager compiles late": 0}
"""The samples of four in which it is planted, where it is not all."""

PLANTS = (
    "wrong",
    "wrong late",
    "wrong while timed",
    "wrong when timed last",
    "wrong on later new inputs",
    "wrong in the last sample",
    "eager compiles late",
)


COMPILED: dict[str, Callable[[Any], Any]] = {
    "tensorflow": lambda run: pkgutil.resolve_name("tensorflow:function")(run),
    "jax": lambda run: pkgutil.resolve_name("jax:jit")(run),
    "torch": lambda run: run,
}
"""Makers of one program of a call."""


def planted_errors() -> Any:
    """The modes that count as wrong, by what is planted in the second mode, or in eager's."""
    with mock.patch.object(replicate, "NEW_INPUTS_NS", 10**12):
        return {plant: wrong_modes(plant) for plant in PLANTS}


def is_right(plant: str, count: int, timed: int, inputs: int) -> bool:
    """True where a plant does nothing: in so many calls, timed ones, and kinds of inputs."""
    return {
        "wrong late": count <= SETTLED,
        "wrong while timed": gc.isenabled(),
        "wrong when timed last": gc.isenabled() or timed > 2,
        "wrong on later new inputs": inputs < replicate.MOST_NEW_INPUTS,
    }.get(plant, False)


def wrong_modes(plant: str) -> list[str]:
    engine = FRAMEWORK.benches[Scenario.CALL].engine
    plain_step, plain_outputs = engine.executables.step, engine.executables.outputs
    eager, second = MODES["call"][:2]
    calls: dict[int, int] = {}
    timed, given = Counter[int](), dict[int, Any]()

    def factor(executable: Any) -> Any:
        count = calls[id(executable)] = calls.get(id(executable), 0) + 1
        timed[id(executable)] += not gc.isenabled()
        given[id(executable.inputs)] = executable.inputs
        if plant == "eager compiles late" and executable.mode == eager and count == SETTLED:
            executable.run = COMPILED[ENGINE](executable.run)
        unplanted = is_right(plant, count, timed[id(executable)], len(given))
        if executable.mode != second or unplanted or len(executable.inputs[0]) != len(LAST):
            return 1.0
        return 1 + PLANTED * PLANTED_IN.get(plant, 1)

    def step(executable: Any) -> None:
        times = factor(executable)
        plain_step(executable)
        executable.last = keras.tree.map_structure(lambda head: head * times, executable.last)

    def outputs(executable: Any, position: int = 0) -> Any:
        return [head * factor(executable) for head in plain_outputs(executable, position)]

    with mock.patch.multiple(engine.executables, step=step, outputs=outputs):
        told = Desk(normalized, modes=(eager, second), batch_size=4).measured()
    at_once = [mode for mode, each in told["modes"].items() if each["status"] != "ok"]
    return [*at_once, *told["spoilt"]]
