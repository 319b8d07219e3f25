"""The proofs of PyTorch's modes, on a small stand-in for torch and Keras: neither is loaded."""

from __future__ import annotations

import importlib
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Mode

MODULE = "xla_sweeps.backends.torch.modes"


@dataclass
class Tensor:
    place: str = "cpu"

    @property
    def device(self) -> Any:
        return SimpleNamespace(type=self.place)


@dataclass
class Torch:
    """Graphs and breaks that compiling captures in the first call, more graphs in the second.

    Nothing of code that was compiled before, as in PyTorch.
    """

    graphs: int = 1
    breaks: int = 0
    again: int = 0
    counters: Any = field(default_factory=lambda: defaultdict(Counter))
    whole: list[bool] = field(default_factory=list)
    codes: list[Any] = field(default_factory=list)

    def compile(self, call: Callable[[Any], Any], *, fullgraph: bool = False) -> Any:
        self.whole.append(fullgraph)
        is_known = any(code is call.__code__ for code in self.codes)
        captured = iter([] if is_known else [self.graphs, self.again])
        self.codes.append(call.__code__)

        def run(batch: Any) -> Any:
            self.counters["stats"]["unique_graphs"] += next(captured, 0)
            self.counters["graph_break"]["why"] = self.breaks
            return call(batch)

        return run

    def export(self, forward: Any, batches: Any, *, strict: bool) -> Any:
        assert not strict
        return SimpleNamespace(module=lambda: forward.forward)


def effective(
    patch: pytest.MonkeyPatch, mode: Mode, fake: Torch, *, output: Any = None, device: str = "cpu"
) -> Any:
    """The proof of a mode after its first call."""
    executable = modes(patch, fake).TorchExecutable.bind(
        lambda batch: output or batch, mode, [Tensor()]
    )
    executable.first_call_s()
    return executable.effective(device=device)


def modes(patch: pytest.MonkeyPatch, fake: Torch) -> Any:
    """The module, loaded on the stand-ins."""
    torch: Any = SimpleNamespace(
        nn=SimpleNamespace(Module=object),
        Tensor=Tensor,
        compile=fake.compile,
        export=SimpleNamespace(export=fake.export),
        inference_mode=nullcontext,
        cuda=SimpleNamespace(is_available=lambda: False),
    )
    tree = SimpleNamespace(flatten=lambda outputs: [outputs])
    patch.setitem(sys.modules, "torch", torch)
    patch.setitem(sys.modules, "torch._dynamo", SimpleNamespace())
    utils = SimpleNamespace(counters=fake.counters, calculate_time_spent=dict)
    patch.setitem(sys.modules, "torch._dynamo.utils", utils)
    patch.setitem(sys.modules, "keras", SimpleNamespace(tree=tree))
    before = set(sys.modules)
    module = importlib.import_module(MODULE)
    for name in sys.modules.keys() - before:
        if name.startswith("xla_sweeps.backends"):  # bound to the stand-ins
            del sys.modules[name]
    return module


@pytest.mark.parametrize(
    ("mode", "whole"), [(Mode.TORCH_COMPILE, [False]), (Mode.TORCH_EXPORT, [True])]
)
def test_one_graph_without_breaks_is_in_force(
    mode: Mode, whole: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Torch()
    proof = effective(monkeypatch, mode, fake)
    assert proof["in_force"]
    assert (proof["graphs"], proof["graph_breaks"]) == (1, 0)
    assert fake.whole == whole


def test_many_graphs_are_said_openly(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = effective(monkeypatch, Mode.TORCH_COMPILE, Torch(graphs=8, breaks=3))
    assert not proof["in_force"]
    assert "captured 8 graphs with 3 graph breaks, not the model as one" in proof["reason"]


def test_compiling_again_is_not_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = effective(monkeypatch, Mode.TORCH_EXPORT, Torch(again=2))
    assert proof["recompilations"] == 2
    assert proof["reason"] == "2 graphs were compiled in the second call"


def test_eager_captures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = effective(monkeypatch, Mode.TORCH_EAGER, Torch())
    assert proof["in_force"]
    assert proof["graphs"] == 0


def test_an_output_on_another_device_is_not_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = effective(monkeypatch, Mode.TORCH_EAGER, Torch(), output=Tensor("cpu"), device="cuda")
    assert not proof["in_force"]
    assert "not on cuda" in proof["reason"]


def test_an_output_that_is_no_tensor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="the model returned a str; tensors are needed"):
        modes(monkeypatch, Torch()).read("no tensor")


def test_a_copy_of_a_mode_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = modes(monkeypatch, Torch())

    def call(batch: Any) -> Any:
        return batch

    for _ in range(2):
        copy = module.TorchExecutable.bind(call, Mode.TORCH_COMPILE, [Tensor()])
        copy.first_call_s()
        assert copy.effective(device="cpu")["graphs"] == 1
