"""Checks of what JAX or PyTorch alone does, for `engine_checks.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from engine_desk import Desk

from xla_sweeps.backends.keras.sources import OWN
from xla_sweeps.schema.modes import Mode, mode_of
from xla_sweeps.schema.trial import COMPILED, Training
from xla_sweeps.trial import protocol


def jax_weights() -> Any:
    """Why a mode counts as wrong whose function holds the weights as constants."""
    import jax

    class Jitted(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(8, name="inside")

        @functools.partial(jax.jit, static_argnums=0)
        def call(self, x: Any) -> Any:
            return self.dense(x)

    outcomes = Desk(Jitted, library=OWN).outcomes().values()
    return [outcome["failure"]["kind"] for outcome in outcomes]


def jax_own_step() -> Any:
    """A training by a model's own `train_step`, which draws random numbers from a state."""
    import jax

    class Noisy(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.seeds = keras.layers.Dense(3), keras.random.SeedGenerator(1)
            self.total = keras.metrics.Mean(name="loss")

        @property
        def metrics(self) -> Any:
            return [self.total]

        def call(self, x: Any) -> Any:
            return self.dense(x + keras.random.normal(keras.ops.shape(x), seed=self.seeds))

        def train_step(self, state: Any, data: Any) -> Any:
            trainable, others, optimizer, metrics = state

            def loss_of(weights: Any) -> Any:
                outputs, after = self.stateless_call(weights, others, data)
                return keras.ops.mean(keras.ops.square(outputs - data)), after

            (loss, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable)
            trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
            metrics = self.total.stateless_update_state(metrics, loss)
            logs = {"loss": self.total.stateless_result(metrics)}
            return logs, (trainable, others, optimizer, metrics)

    def make() -> Any:
        model = Noisy()
        model.compile(optimizer=keras.optimizers.Adam(0.01))
        return model

    training = Training(optimizer=COMPILED)
    return Desk(make, "train_step", library=OWN, training=training).measured()


def jax_macs() -> Any:
    """Multiply-accumulates of programs, and whether they are a lower bound."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    from xla_sweeps.backends.jax.modes import JaxExecutable
    from xla_sweeps.backends.keras.hlo import Module, count_macs

    def convolved(groups: int) -> Callable[[Any], Any]:
        kernel = jnp.ones((3, 3, 6 // groups, 12))
        numbers = ("NHWC", "HWIO", "NHWC")
        return lambda images: lax.conv_general_dilated(
            images,
            kernel,
            (1, 1),
            "SAME",
            dimension_numbers=numbers,
            feature_group_count=groups,
        )

    side, images = jnp.ones((4, 4)), jnp.ones((2, 8, 8, 6))
    programs: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "dot": (lambda x: x @ x, side),
        "jit": (jax.jit(lambda x: x @ x), side),
        "convolution": (convolved(1), images),
        "grouped": (convolved(3), images),
        "scan": (lambda x: lax.scan(lambda c, _: (c @ x, None), x, length=5)[0], side),
        "while": (lambda x: lax.while_loop(lambda c: c[0, 0] < 9, lambda c: c @ x, x), side),
    }
    counts = {}
    for name, (of, given) in programs.items():
        executable = JaxExecutable.bind(of, Mode.JAX_XLA, [given])
        counts[name] = count_macs(Module.parse(executable.serialize_program()))
    return {name: [count.total, count.at_least] for name, count in counts.items()}


def jax_loops() -> Any:
    """Status and flags of op by op execution of a loop whose function each call makes."""
    from jax import lax

    def call(batch: Any) -> Any:
        return lax.scan(lambda total, row: (total + row, total * row), batch[0], batch)

    desk = Desk(lambda: call, modes=("jax_eager", "jax_xla"), library=OWN)
    statuses = list(desk.statuses().values())
    flags = [each.flagged for each in desk.heard if isinstance(each, protocol.Caveat)]
    return statuses, [[str(each.flag), each.mode, each.note] for each in flags]


def torch_proofs() -> Any:
    """The reason of each proof, "" where the mode is in force."""
    import torch

    from xla_sweeps.backends.torch.modes import TorchExecutable

    calls = [0]

    def broken(batch: Any) -> Any:
        torch._dynamo.graph_break()
        return batch + 1

    words = [""]

    def changing(batch: Any) -> Any:
        return batch + calls[0]

    def restless(batch: Any) -> Any:
        return batch + len(words[0])

    def plain(batch: Any) -> Any:
        return batch + 1

    def reason(call: Callable[[Any], Any], mode: str, device: str = "cpu") -> str:
        executable = TorchExecutable.bind(call, mode_of(mode), [torch.ones(2)])
        run = executable.run

        def run_anew(batch: Any) -> Any:
            words[0] += "x"
            return run(batch)

        executable.run = run_anew
        executable.first_call_s()
        calls[0] += 1
        return str(executable.effective(device=device)["reason"])

    return {
        "one graph": reason(plain, "torch_compile"),
        "its copy": reason(plain, "torch_compile"),
        "several": reason(lambda batch: broken(batch) * 2, "torch_compile"),
        "none": reason(torch._dynamo.disable(plain), "torch_compile"),
        "once again": reason(changing, "torch_compile"),
        "again": reason(restless, "torch_compile"),
        "eager": reason(plain, "torch_eager"),
        "elsewhere": reason(plain, "torch_eager", device="cuda"),
    }
