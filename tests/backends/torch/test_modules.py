"""Modules of PyTorch users, in memory and by path, in an environment that has no TensorFlow."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from other_environments import ON_TORCH, measured, python_of, run_trial
from paths import ROOT
from programs import run_program

pytestmark = ON_TORCH

NETS = """
import torch

class Net(torch.nn.Module):
    def __init__(self, rate=0.0):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)
        self.drop = torch.nn.Dropout(rate)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.norm(self.first(x))).mean((2, 3))))

class Decides(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 5)

    def forward(self, x):
        x = x.mean((2, 3))
        if x.sum() > 0:
            x = x * 2
        return self.last(x)

class Sorts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(16, 5)

    def forward(self, batch):
        return torch.from_numpy(self.last(batch["x"]).numpy() + batch["y"].numpy())

class Doubles(torch.nn.Module):
    def forward(self, x):
        return x.mul_(2).mean((2, 3))

class Forces(torch.nn.Module):
    def forward(self, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(x.square().sum(), x)[0]

class Two(torch.nn.Module):
    def forward(self, a, b):
        return {"sum": a + b, "pair": [a, b * 2]}

class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x * self.calls

class Draws(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x)

def made(kind=Net, *given):
    torch.manual_seed(0)
    return kind(*given).eval()

@torch.compiler.disable
def averages(x):
    return x.mean((2, 3))

def words():
    return made(lambda: torch.nn.Embedding(4, 3)).bfloat16()

"""

SHIPPED = (
    NETS
    + """
import json, pickle, sys
from pathlib import Path
import numpy as np
import xla_sweeps as xs
from xla_sweeps.api import shipping
from xla_sweeps.errors import ConfigError

x, told = torch.rand(2, 3, 16, 16), {}

def refusal(model, inputs=x, **options):
    try:
        xs.measure(model, inputs, **options)
    except ConfigError as error:
        return str(error)

def digest(model, inputs=x):
    named = shipping.options_for(model, inputs, None, results_dir=Path("results"))
    paths.append(named.pop("path").partition(":")[0])
    assert (named["backend"], named["batch_size"]) == ("torch", 2)
    return Path(paths[-1]).parent.name[:16]

paths = []
told["refused"] = {
    "training": refusal(made().train()),
    "compiled": refusal(torch.compile(made())),
    "compiled within": refusal(torch.nn.Sequential(torch.compile(made())).eval()),
    "compiled function": refusal(torch.compile(torch.relu), backend="torch"),
    "disabled and compiled": refusal(torch.compile(torch.compiler.disable(made))),
    "program": refusal(torch.export.export(made(), (x,))),
    "no inputs": refusal(made(), None),
    "backend": refusal(made(), backend="tensorflow"),
    "shape": refusal(made(), x[0]),
}
other = made()
with torch.no_grad():
    other.last.weight += 1
ids = torch.arange(4).reshape(2, 2)
told["same"] = len({digest(made()), digest(made(), x.numpy()), digest(made(), [x])})
told["in bfloat16"] = len({digest(words(), ids), digest(words(), ids.numpy())})
told["different"] = len({digest(made()), digest(other), digest(made(Net, 0.5))})
digest(made(Two), [x, x])
digest(made(Two), {"a": x.requires_grad_(), "b": x.detach().numpy()})
digest(made(Sorts), {"x": torch.rand(2, 16), "y": torch.rand(2, 5)})
digest(made(Counts))
digest(made(Draws))
digest(made().half().float(), x)
print(json.dumps([told, paths]))
"""
)

LOADED = """
import json, pickle, sys
import cloudpickle, torch
from pathlib import Path
from xla_sweeps.backends.tensorflow.sources import shipped

told = []
for path in json.loads(sys.argv[1]):
    folder, before = Path(path).parent, torch.get_rng_state()
    module = shipped.load(folder)
    assert torch.equal(torch.get_rng_state(), before), "what it draws later follows the seed"
    assert float(getattr(module, "calls", 0)) == 0, "it is as it was shipped"
    told.append(type(module).__name__)
content = folder / "code.pickle"
code = pickle.loads(content.read_bytes())
code["outputs"] = [each + 1 for each in code["outputs"]]
content.write_bytes(cloudpickle.dumps(code))
try:
    shipped.load(folder)
except Exception as error:
    told.append(str(error))
print(json.dumps(told))
"""

MEASURED = (
    NETS
    + """
import json
import xla_sweeps as xs

trial = xs.measure(made(), torch.rand(2, 3, 16, 16), **{"effort.always_reference": True})
print(json.dumps([trial.exit_code, trial.records[0].read_text()]))
"""
)


def python() -> Path:
    try:
        return python_of("torch")
    except subprocess.CalledProcessError:
        pytest.skip("the package indexes have no CPU build of PyTorch for this Python")


def run(code: str, folder: Path, *words: str) -> Any:
    """The last line that a script printed."""
    (folder / "cells.py").write_text(code)
    own = {"PYTHONPATH": str(ROOT), "KERAS_BACKEND": "torch"}
    ended = run_program(python(), "cells.py", *words, cwd=folder, more=own)
    return json.loads(ended.stdout.splitlines()[-1])


def by_path(folder: Path, function: str, *words: str) -> Any:
    """The record of a module that a function builds."""
    own = {"PYTHONPATH": str(ROOT)}
    words = ("backend=torch", *words)
    return measured(python(), folder, *words, code=code_of(function), environ=own)


def code_of(function: str) -> str:
    return f"{NETS}\ndef build():\n    return {function}\n"


COMPILED = "is compiled; leave torch.compile to the modes, and give what is below it"

IMAGE = "input_spec=[{shape:[3,16,16],high:1}]"


def test_a_module_in_memory_is_shipped_or_refused_in_one_line(tmp_path: Path) -> None:
    told, paths = run(SHIPPED, tmp_path)
    refused = told.pop("refused")
    assert told == {"same": 1, "in bfloat16": 1, "different": 3}
    assert "BatchNorm2d: call module.eval() first" in refused["training"]
    assert "module._orig_mod" in refused["compiled"]
    assert refused["compiled within"] == f"model: its part 0 (Net) {COMPILED}"
    assert refused["compiled function"] == f"model: the function {COMPILED}"
    assert refused["disabled and compiled"] == f"model: the function {COMPILED}"
    assert "an exported program; give the module" in refused["program"]
    assert "measure(module, batch)" in refused["no inputs"]
    assert refused["backend"] == (
        "backend=tensorflow: a PyTorch module runs on PyTorch only: backend=torch"
    )
    assert "it cannot be called on these inputs (ValueError" in refused["shape"]
    *kinds, changed = run(LOADED, tmp_path, json.dumps(paths))
    assert {*kinds} == {"Net", "Two", "Sorts", "Embedding", "Counts", "Draws"}
    assert "computes something else than in your process" in changed


def test_a_module_in_memory_is_measured_in_all_modes(tmp_path: Path) -> None:
    code, text = run(MEASURED, tmp_path)
    record = json.loads(text)
    assert code == 0
    assert list(record["modes"]) == ["torch_eager", "torch_compile", "torch_export"]
    assert {mode["status"] for mode in record["modes"].values()} == {"ok"}
    assert "reference" in record["seconds"]
    assert "no_float64_reference" not in [flag["flag"] for flag in record["flags"]]
    trained = 27 * 8 + 8 + 2 * 8 + 8 * 5 + 5
    assert record["model"]["trainable_params"] == trained
    assert record["model"]["params"] == trained + 2 * 8 + 1


def test_a_module_that_breaks_the_graph_is_measured_with_its_line(tmp_path: Path) -> None:
    record = by_path(tmp_path, "made(Decides)", IMAGE)
    line = f"own.py:{NETS[: NETS.index('if x.sum')].count(chr(10)) + 1}"
    compiled, exported = (record["modes"][f"torch_{way}"] for way in ("compile", "export"))
    assert compiled["status"] == "ok"
    [flag] = [flag for flag in record["flags"] if flag["flag"] == "graph_breaks"]
    assert flag["mode"] == "torch_compile"
    assert f"{line} (Data-dependent branching)" in flag["note"]
    assert exported["status"] == "trace_error"
    assert exported["failure"]["message"].endswith(f"as one graph ({line})")


def test_a_module_takes_named_inputs_in_a_dictionary_and_needs_no_gradient(tmp_path: Path) -> None:
    named = "input_spec=[{name:x,shape:[16]},{name:y,shape:[5]}]"
    record = by_path(tmp_path, "made(Sorts)", named, "modes=[torch_eager,torch_compile]")
    assert {mode["status"] for mode in record["modes"].values()} == {"ok"}


def test_a_function_that_pytorch_must_not_compile_is_measured(tmp_path: Path) -> None:
    record = by_path(tmp_path, "averages", IMAGE)
    assert record["modes"]["torch_eager"]["status"] == "ok"


def test_the_modes_of_torch_compile_are_compared_in_one_trial(tmp_path: Path) -> None:
    ways = ("reduce_overhead", "max_autotune", "dynamic")
    modes = ["torch_eager", *(f"torch_compile_{way}" for way in ways)]
    record = by_path(tmp_path, "made()", "resolution=16", f"modes=[{','.join(modes)}]")
    assert list(record["modes"]) == modes
    assert {mode["status"] for mode in record["modes"].values()} == {"ok"}
    assert {mode["effective"]["graphs"] for mode in record["modes"].values()} == {0, 1}


@pytest.mark.parametrize(
    ("code", "function", "words", "reason"),
    [
        (2, "made()", "", "'input_spec=[{shape:[3,224,224],dtype:float32}]'"),
        (2, "Net(0.5)", IMAGE, "in training mode, with BatchNorm2d, Dropout: call module.eval()"),
        (2, "torch.jit.script(made(Decides))", IMAGE, "the module is of torch.jit"),
        (
            2,
            "made()",
            f"{IMAGE} precision=mixed_bfloat16",
            "is a PyTorch module, which computes in its",
        ),
        (2, "made(Doubles)", IMAGE, "changes its inputs in place"),
        (1, "made(Forces)", IMAGE, "the model's forward takes gradients"),
        (1, "made()", "input_spec=[{shape:[16,16,3]}]", "to have 3 channels, but got 16 channels"),
    ],
)
def test_a_module_that_cannot_be_measured_is_refused_with_what_to_do(
    code: int, function: str, words: str, reason: str, tmp_path: Path
) -> None:
    own = {"PYTHONPATH": str(ROOT)}
    asked = ("backend=torch", *words.split())
    ended = run_trial(python(), tmp_path, *asked, code=code_of(function), environ=own)
    assert ended.returncode == code, ended.stderr
    assert reason in ended.stdout + ended.stderr
    assert bool(list(tmp_path.glob("r/records/*/*"))) is (code == 1)
