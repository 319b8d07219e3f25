"""What a backend does not have is refused in one line, before anything starts."""

from __future__ import annotations

import pytest
from composed import complaint

from xla_sweeps.system import environment


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jit=null"], "jit=null: JAX has the modes jax_eager, jax_xla only"),
        (["scenario=fit"], "JAX does not measure scenario=fit; it has call, predict, train_step"),
        (["keras=2"], "is built by tf_keras, which runs on TensorFlow only"),
        (["threads.intra=1"], "threads.intra: JAX has no such option"),
        (["modes=[graph,xla]"], "graph is a mode of TensorFlow"),
    ],
)
def test_what_jax_lacks_is_refused(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda name: True)
    assert message in complaint("model=mobilenet_v2", "backend=jax", *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scenario=fit"], "PyTorch does not measure scenario=fit; it has call, predict, train"),
        (["keras=2"], "is built by tf_keras, which runs on TensorFlow only"),
        (["threads.intra=1"], "threads.intra: PyTorch has no such option"),
        (["modes=[jax_eager,jax_xla]"], "jax_eager is a mode of JAX"),
    ],
)
def test_what_torch_lacks_is_refused(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda name: True)
    assert message in complaint("model=mobilenet_v2", "backend=torch", *words)


def test_training_is_compared_in_one_backend_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda name: True)
    refusal = complaint("model=mobilenet_v2", "scenario=train_step", "modes=[graph,jax_xla]")
    assert "scenario=train_step: the modes of one trial are of one backend" in refusal


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_backend_that_is_not_installed_is_one_line_with_the_command(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda name: name != backend)
    refusal = complaint("model=mobilenet_v2", f"backend={backend}")
    assert f"{backend} is not installed; install it: pip install {backend}" in refusal
