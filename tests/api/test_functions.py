"""Functions of `import xla_sweeps`, by a backend without TensorFlow."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT, SUPPORT

import xla_sweeps as xs
from xla_sweeps.api import supervisor

QUICK: dict[str, Any] = {
    "resolution": 32,
    "device": "cpu",
    "modes": ["fake_xla", "fake_graph"],
    "progress": "none",
    "effort.block_s": 0.002,
    "effort.rounds_max": 10,
    "effort.warmup_s": 0.05,
}


@pytest.fixture(autouse=True)
def without_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    program = (sys.executable, str(SUPPORT / "fake_backend.py"))
    monkeypatch.setattr(supervisor, "python_command", lambda module, *words: (*program, *words))


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, xla_sweeps; "
        "print([n for n in ('numpy','rich','hydra','omegaconf','tensorflow','keras','pyarrow',"
        "'scipy','msgspec') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_package_of_a_function_s_name_can_be_called_however_it_was_imported() -> None:
    for package in ("measure.runner", "results.rows", "sweep.plan"):
        importlib.import_module(f"xla_sweeps.{package}")
    for name in ("measure", "results", "sweep", "compare", "explain"):
        assert callable(getattr(xs, name)), name


def test_a_trial_in_a_thread_is_a_value_that_shows_itself() -> None:
    done: list[xs.Trial] = []
    worker = threading.Thread(target=lambda: done.append(xs.measure("mobilenet_v1", **QUICK)))
    worker.start()
    worker.join()
    (trial,) = done
    assert repr(trial).startswith("MobileNet 32 px")
    assert "\x1b" not in repr(trial)
    assert trial.records[0].is_file()
    assert trial.log is not None
    assert set(trial.modes) == {"fake_xla", "fake_graph"}
    with pytest.raises(TypeError, match=r"\.verdict"):
        bool(trial)
    with pytest.raises(AttributeError):
        trial.text = ""  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_sise": 4}, "unknown option 'batch_sise'. Did you mean 'batch_size'?"),
        ({"ui": "live"}, "use progress="),
        ({"progress": "bar"}, "unknown progress 'bar'"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"inputs": [[1.0]]}, "inputs: a model of the catalog has its own"),
    ],
)
def test_a_request_that_cannot_be_carried_out_raises_in_one_line(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(xs.ConfigError) as error:
        xs.measure("mobilenet_v1", **{**QUICK, **options})
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert not Path("results", "records").exists()


def test_an_unknown_model_raises_with_the_nearest() -> None:
    with pytest.raises(xs.ConfigError, match="Did you mean 'mobilenet_v1'"):
        xs.measure("mobilenet_v11", **QUICK)


def test_an_interrupt_saves_what_was_measured(tmp_path: Path) -> None:
    request = {**QUICK, "effort.rounds_max": 20_000, "effort.rounds_min": 20_000}
    code = f"""
import sys, signal, os
sys.path.insert(0, {str(SUPPORT)!r})
import xla_sweeps as xs
from xla_sweeps.api import supervisor
program = (sys.executable, {str(SUPPORT / "fake_backend.py")!r})
supervisor.python_command = lambda module, *words: (*program, *words)
sent = []
def follow(event):
    if event["event"] == "rounds" and not sent:
        sent.append(1)
        os.kill(os.getpid(), signal.SIGINT)
import xla_sweeps.api.functions as functions
functions.follower = lambda progress: follow
try:
    xs.measure("mobilenet_v1", **{request!r})
except KeyboardInterrupt:
    print("alive")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.stdout.strip() == "alive", done.stderr
    (path,) = (tmp_path / "results" / "records").glob("*/*.json")
    assert json.loads(path.read_bytes())["rounds"]
