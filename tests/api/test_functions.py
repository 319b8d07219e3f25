"""Functions of `import xla_sweeps`, by a backend without TensorFlow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec
import pytest
from composed import complaint_of
from ended import wait_for, working_in
from explanations import KNOWN
from factories import make_record
from paths import ROOT, SUPPORT
from programs import run_program

import xla_sweeps as xs
from xla_sweeps.api import supervisor
from xla_sweeps.api.kernel import require_free_gpus
from xla_sweeps.report.terminal.explanation import explanation_text
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.definition import Sweep, load_sweep

RECORD = make_record({"graph": 0.2, "xla": 0.1}, noise=0.01)

QUICK: dict[str, Any] = {
    **{"resolution": 32, "device": "cpu", "modes": ["fake_xla", "fake_graph"], "progress": "none"},
    **{"effort.block_s": 0.002, "effort.rounds_max": 10, "effort.warmup_s": 0.05},
}


@pytest.fixture(autouse=True)
def without_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run_by("fake_backend.py", monkeypatch)


def run_by(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have functions run a program of `tests/support` instead of the command line."""
    command = (sys.executable, str(SUPPORT / program))
    monkeypatch.setattr(supervisor, "python_command", lambda module, *words: (*command, *words))


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, xla_sweeps; "
        "print([n for n in ('numpy','rich','hydra','omegaconf','tensorflow','keras','pyarrow',"
        "'scipy','msgspec') if n in sys.modules])"
    )
    assert run_program(sys.executable, "-c", code, cwd=ROOT).stdout == "[]\n"


def test_a_trial_in_a_thread_is_a_value_that_shows_itself() -> None:
    done: list[xs.Trial] = []
    with subprocess.Popen(["sleep", "600"]) as child:
        worker = threading.Thread(target=lambda: done.append(xs.measure("mobilenet_v1", **QUICK)))
        worker.start()
        worker.join()
        assert child.poll() is None, "the caller's own children live"
        child.kill()
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


def nightly(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.exhaustive)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "mobilenet_v11"}, "Did you mean 'mobilenet_v1'"),
        ({"batch_sise": 4}, "unknown option 'batch_sise'. Did you mean 'batch_size'?"),
        ({"ui": "live"}, "use progress="),
        ({"progress": "bar"}, "unknown progress 'bar'"),
        ({"inputs": "text"}, "inputs: text, which XLA does not take"),
        ({"inputs": [[1.0]]}, "inputs: a model of the catalog has its own"),
        nightly({"batch_size": 0}, "batch_size=0"),
        nightly({"modes": "fake_xlb"}, "unknown execution mode 'fake_xlb'"),
    ],
)
def test_a_request_that_is_impossible_raises_in_one_line(
    options: dict[str, Any], words: str
) -> None:
    asked = {"model": "mobilenet_v1", **QUICK, **options}
    assert words in complaint_of(xs.measure, **asked)
    assert not Path("results", "records").exists()


LONG = {**QUICK, "effort.rounds_max": 20_000, "effort.rounds_min": 20_000}

INTERRUPTED = f"""
import os, signal, sys
sys.path.insert(0, {str(SUPPORT)!r})
import xla_sweeps as xs
from xla_sweeps.api import functions, supervisor
program, ignored, signals = sys.argv[1], sys.argv[2].split(), sys.argv[3:]
for name in ignored:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {{getattr(signal, name)}})
dies = "dies" in signals and signals.pop()
for _ in range(1100 if ignored else 0):  # more open files than `select` takes
    os.dup(2)
supervisor.python_command = lambda module, *words: (sys.executable, program, *words)
def follow(event):
    if signals and event["event"] == signals[0]:
        del signals[0]
        os.kill(os.getpid(), signal.SIGKILL if dies else signal.SIGINT)
functions.follower = lambda progress: follow
try:
    xs.measure("mobilenet_v1", **{LONG!r})
except KeyboardInterrupt:
    print("alive")
"""

STUBBORN = """
import os, signal, time
def told(*ignored):
    print('{"event": "saved"}', flush=True)
signal.signal(signal.SIGINT, told)
open("pid", "w").write(str(os.getpid()))
print('{"event": "rounds"}', flush=True)
while True:
    time.sleep(1)
"""


IGNORED = "SIGINT SIGTERM SIGHUP SIGCHLD SIGPIPE"


def interrupted(program: Path, *events: str, cwd: Path, ignored: str = "") -> None:
    """Measure in a process that gets a Ctrl-C at each of these events; it must go on after them.

    If the last is `dies`, it is killed instead.
    """
    done = run_program(
        *("sh", "-c", 'ulimit -n 2048; exec "$@"', "sh"),
        *(sys.executable, "-c", INTERRUPTED, str(program), ignored, *events),
        cwd=cwd,
        code=None,
        limit_s=300,
    )
    assert "dies" in events or done.stdout.strip() == "alive", done.stderr


@pytest.mark.parametrize(
    ("events", "ignored"),
    [
        nightly(("rounds",), IGNORED),
        (("rounds", "saved"), ""),
        (("rounds", "dies"), IGNORED),
    ],
)
def test_interrupts_and_deaths_end_the_command_and_save_what_was_measured(
    events: tuple[str, ...], ignored: str, tmp_path: Path
) -> None:
    interrupted(SUPPORT / "fake_backend.py", *events, cwd=tmp_path, ignored=ignored)
    wait_for(lambda: [*tmp_path.glob("results/records/*/*.json")], 60)
    path = next(tmp_path.glob("results/records/*/*.json"))
    assert json.loads(path.read_bytes())["rounds"]
    wait_for(lambda: not working_in(tmp_path), 60)


def test_an_interrupt_while_the_command_is_started_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = []

    def start(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*words, **options))
        signal.raise_signal(signal.SIGINT)
        return started[-1]

    monkeypatch.chdir(tmp_path)
    popen = subprocess.Popen
    monkeypatch.setattr(supervisor, "ENDING_S", 0.1)
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        xs.measure("mobilenet_v1", **LONG)
    assert started[0].poll() is not None
    wait_for(lambda: not working_in(tmp_path), 60)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_refusal_is_told_where_sigchld_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(xs.ConfigError, match="unknown model 'nope'"):
            xs.measure("nope", progress="none")
        run_by("nothing.py", monkeypatch)
        monkeypatch.setattr(supervisor, "EXIT_CODE", "never")
        with pytest.raises(xs.XlaSweepsError, match="can't open file"):
            xs.measure("mobilenet_v1", **QUICK)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_second_interrupt_ends_a_command_that_does_not_end(tmp_path: Path) -> None:
    program = tmp_path / "stubborn.py"
    program.write_text(STUBBORN)
    interrupted(program, "rounds", "saved", cwd=tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_gpu_that_is_held_here_is_refused_with_both_ways_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = SimpleNamespace(name="/job:localhost/replica:0/task:0/device:GPU:0")
    context = SimpleNamespace(_initialized=True, list_logical_devices=lambda kind: [held])
    module = SimpleNamespace(context_safe=lambda: context)
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", module)
    asked = {name: value for name, value in QUICK.items() if name != "device"}
    for call in (xs.measure, xs.explain):
        with pytest.raises(xs.XlaSweepsError, match=r"holds GPU:0 .*set_visible_devices") as error:
            call("mobilenet_v1", **({} if call is xs.explain else asked))
        assert "\n" not in str(error.value)
        assert "device='cpu'" in str(error.value)
    require_free_gpus("cpu")
    context._initialized = False
    require_free_gpus(None)


def test_a_sweep_gives_the_rows_of_its_own_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    run_by("fake_sweep.py", monkeypatch)
    monkeypatch.setenv("FAKE_WORKER", "")
    Store(Path("results")).save(RECORD)
    grid = {"model": "mobilenet_v2", "modes": [["graph", "xla"]], "effort.duplicates": 0}
    for _ in range(2):  # the second measures nothing
        (row,) = rows = xs.sweep({**grid, "batch_size": [4]}, effort="quick", device="cpu")
        assert (row["batch_size"], row["status"], rows.notes[0]) == (4, "ok", "trials: 1 ok")
    assert len(xs.results()) == 2


def test_a_sweep_that_cannot_be_carried_out_raises() -> None:
    with pytest.raises(xs.ConfigError, match="Did you mean 'mobilenet_v2'"):
        xs.sweep({"model": "mobilenet_v22"})
    for own in ("local", [object()]):
        with pytest.raises(xs.ConfigError, match=r"call measure\(\)"):
            xs.sweep({"model": own})
    text = {"learning_rate": "3e-4", "scenario": "fit"}
    said = complaint_of(xs.sweep, {"model": "mobilenet_v2", **text})
    assert said.startswith("definition: learning_rate=3e-4: expected a number above 0")
    assert said.endswith("3e-4 is a text in YAML 1.1; write 3.0e-4")


def test_the_values_of_a_sweep_are_those_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [0.1, 1e-5, 1e22, 3]
    grid: dict[str, Any] = {"model": "mnist_mlp", "batch_size": several, "learning_rate": several}
    grid |= {"scenario": ["train_step", "3e-4", "é", "yes", None, True], "modes": [["graph"]]}
    files: list[Sweep] = []

    def run(words: Any, **more: Any) -> tuple[int, str]:
        files.append(load_sweep(Path(words[1])))
        raise xs.ConfigError(f"{words[1]}:1: parameters.model: refused")

    monkeypatch.setattr(supervisor, "run", run)
    said = complaint_of(xs.sweep, grid)
    assert said == "definition: parameters.model: refused"
    values = {name: list(parameter.values) for name, parameter in files[0].parameters.items()}
    assert values == {**grid, "model": ["mnist_mlp"]}
    assert list(values) == list(grid)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["tracker=none"]),
        ({"tracker": "wandb"}, ["tracker=wandb"]),
        ({"tracker": {"name": "wandb", "tags": []}}, ["tracker.name=wandb", "tracker.tags=[]"]),
        ({"tracker.entity": "me"}, ["tracker.entity=me"]),
        ({"tracker.tags": ["a"]}, ["tracker.tags=[a]", "tracker=none"]),
    ],
)
def test_a_run_is_tracked_where_an_option_of_the_tracker_asks_for_it(
    given: dict[str, Any], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = mock.Mock(side_effect=xs.ConfigError("refused"))
    monkeypatch.setattr(supervisor, "run", run)
    for call in (xs.measure, xs.sweep):
        with pytest.raises(xs.ConfigError, match="refused"):
            call("mobilenet_v1", **given)
        assert [word for word in run.call_args.args[0] if word.startswith("tracker")] == words


def build() -> None:
    """Stand for a function that builds a model."""


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("mobilenet_v1", None),
        (build, "HERE/mine/models/DIGEST/model.py:build"),
        ("nets.py:build", "HERE/nets.py:build"),
        ("saved", "HERE/saved"),
        ("nets:build", "nets:build"),
    ],
)
def test_the_command_of_a_trial_is_right_in_any_folder(
    model: Any, path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("nets.py").touch()
    Path("saved").mkdir()
    Path("nets").mkdir()
    ran: list[Any] = []

    def run(words: Any, *, follow: Any) -> tuple[int, str]:
        ran.extend(words)
        end = {"trial_id": "0", "text": "", "exit_code": 0, "records": [], "logs": []}
        follow({"event": "end", "summary": {}, **end})
        return 0, ""

    monkeypatch.setattr(supervisor, "run", run)
    trial = xs.measure(model, results_dir="mine", trust_code=True)
    kept = dict(word.split("=", 1) for word in trial.words)
    assert "results_dir=mine" in ran, "what is shown stays short"
    assert kept["results_dir"] == str(tmp_path / "mine")
    place = (path or "").replace("HERE", str(tmp_path))
    if "DIGEST" in place:
        (folder,) = (tmp_path / "mine" / "models").iterdir()
        place = place.replace("DIGEST", folder.name)
    assert kept.get("path") == (place or None)


def test_changes_between_folders_are_a_table() -> None:
    Store(Path("before")).save(RECORD)
    Store(Path("after")).save(RECORD)
    changes = xs.compare("before", "after")
    assert len(changes) > 1
    assert {row["verdict"] for row in changes} <= {"equivalent", "ambiguous"}
    with pytest.raises(xs.XlaSweepsError, match="nowhere"):
        xs.compare("before", "nowhere")


def test_an_explanation_is_asked_for_by_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    run = mock.Mock(return_value=(0, msgspec.json.encode(KNOWN).decode()))
    monkeypatch.setattr(supervisor, "run", run)
    why = xs.explain("mobilenet_v1", batch_size=2, resolution=32)
    assert why.traps == KNOWN.traps
    assert repr(why) == explanation_text(KNOWN).rstrip()
    words = run.call_args.args[0]
    assert words[:3] == ["explain", "--format", "json"]
    assert {"model=mobilenet_v1", "batch_size=2", "resolution=32"} <= set(words)
    with pytest.raises(xs.ConfigError, match="Did you mean 'resolution'"):
        xs.explain("mobilenet_v1", resolutoin=32)
