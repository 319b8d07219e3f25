"""The command of a row measures it again: composing it gives the same trial id."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from commands import own_model
from factories import make_outcome, make_rounds
from keras_files import write_keras_file
from made_files import make_files

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.cli.main import run
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.settings import Settings, identify
from xla_sweeps.report import next_steps
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.sweeps.compose import Composer
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.system import devices
from xla_sweeps.system.environment import environment
from xla_sweeps.trial import runner
from xla_sweeps.trial.recording import make_record
from xla_sweeps.trial.replicate import ReplicateResult
from xla_sweeps.trial.runner import TrialResult

KINDS = {
    "catalog": "model=resnet50",
    "defaults": "ui=quiet",
    "size": "model=resnet50 resolution=160 batch_size=1 seed=3",
    "source": "model=vit_b16 source=keras_hub",
    "weights": "model=resnet50 weights=imagenet",
    "saved weights": "model=vit_b16 source=keras_hub weights=vit_base_patch16_224_imagenet",
    "precision": "model=vgg16 precision=mixed_bfloat16",
    "scenario": "model=yolo_v8_m scenario=detect",
    "jit=false": "jit=false",
    "jit=null": "jit=null",
    "jit=auto": "jit=auto",
    "modes": "modes=[graph,xla]",
    "reordered modes": "modes=[xla,default,eager]",
    "A/A": "modes=[graph,graph]",
    "device": "device=cpu",
    "deadlines": "timeouts.compile=7 memory_limit_gib=2",
    "effort": "effort=standard",
    "effort's keys": "effort=standard effort.block_s=0.05 effort.rounds_max=77 effort.mode_cap_s=3",
    "model's keys": "model.variant=Half model.resolution=96",
    "new model's keys": "+model.sources.applications.arguments.alpha=0.5",
    "keras": "model=local path=net.keras trust_code=true",
    "hostile name": r"""model=local 'path="it'"'"'s; rm -rf x.keras"' trust_code=true""",
    "renamed": "model=local path=net.keras trust_code=true model.variant=Mine model.family=Ours",
    "keras with layers": "model=local path=net.keras import=layers.py trust_code=true",
    "keras with a module": "model=local path=net.keras import=layers trust_code=true",
    "function": "model=local path=layers:make trust_code=true",
    "function of a file": "model=local path=below/other.py:make trust_code=true resolution=64",
    "saved model": "model=local path=saved/ trust_code=true",
    "inputs": "model=local path=layers:make trust_code=true "
    "'input_spec=[{shape:[8],dtype:int32,low:0,high:9,name:a},{shape:[2,3],name:\"b/c\"}]'",
    "own catalog": "--config-dir own model=tiny source=applications",
    "own catalog's keys": "-cd own model=tiny +model.sources.applications.arguments.pooling=avg",
    "own effort": "--config-dir=own effort=mine effort.block_s=0.011",
    "own experiment": "--config-dir own +experiment=both seed=9",
    "own experiment that names code": "--trust-config own +experiment=code seed=9",
    "own first file": "--config-dir own --config-name first seed=9",
    "shown elsewhere": "results_dir=other tracker.group=g tracker.tags=[a,b] ui=quiet seed=5 "
    "hydra.run.dir=elsewhere",
    "a server's": '\'{"model": "resnet50", "seed": 4, "effort": {"block_s": 0.2}, "jit": null}\'',
}

DAILY = (
    *("new model's keys", "hostile name", "inputs", "own experiment that names code"),
    *("shown elsewhere", "a server's"),
)


GLOBAL = "# @package _global_\n"

OWN = {
    "effort/mine.yaml": "defaults: [quick, _self_]\nname: mine\nrounds_max: 30\n",
    "experiment/both.yaml": f"{GLOBAL}defaults:\n  - override /model: tiny\n"
    "  - override /effort: mine\nbatch_size: 2\neffort: {block_s: 0.04}\n",
    "experiment/code.yaml": f"{GLOBAL}defaults: [override /model: local, override /jit: 'null']\n"
    "path: layers:make\ntrust_code: true\nresults_dir: other\neffort: {block_s: 0.04}\n",
    "first.yaml": "defaults: [config, override model: tiny, _self_]\nbatch_size: 2\n",
}
"""Files of one's own configuration."""


@dataclass
class Again:
    """Asks for trials, with the real command line, and keeps what would be measured."""

    asked: list[Settings]

    def __call__(self, line: str) -> Settings:
        assert run(shlex.split(line)) == 0
        return self.asked[-1]


@pytest.fixture
def again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Again:
    """A folder with models of every kind, and trials that end before they measure."""
    own_model(tmp_path)
    make_files(tmp_path / "own", OWN)
    for name in ("saved/saved_model.pb", "layers.py", "below/other.py"):
        make_files(tmp_path, {name: f"def make(): ...  # {name}\n"})
    for name in ("net.keras", "it's; rm -rf x.keras"):
        write_keras_file(tmp_path / name, name.encode())
    monkeypatch.chdir(tmp_path)
    for name in ("CUDA_VISIBLE_DEVICES", *environment()["flags"]):  # `scripts/nightly` sets some
        monkeypatch.delenv(name, raising=False)
    asked: list[Settings] = []

    def run_trial(settings: Settings, **_: object) -> TrialResult:
        asked.append(settings)
        return TrialResult(trial_id="0", summary=None, exit_code=0)

    monkeypatch.setattr(runner, "run_trial", run_trial)
    return Again(asked)


def trial_of(settings: Settings) -> str:
    return identify(settings, environment())


def record_of(settings: Settings) -> Record:
    labels = settings.trial.modes
    result = ReplicateResult(
        status=Status.OK,
        finished=True,
        modes={label: make_outcome() for label in labels},
        rounds=list(make_rounds(dict.fromkeys(labels, 0.01))),
    )
    record = make_record(settings, trial_of(settings), 0, result, environment())
    return Record.from_json(record.to_json())


def command_of(record: Record) -> tuple[dict[str, str], str]:
    """The command in the record's row, if it has one: the variables that it sets, and the rest."""
    rows = summarize([record]).comparisons
    words = shlex.split(rows[0].provenance.command)
    start = words.index("python")
    assert words[start : start + 3] == ["python", "-m", "xla_sweeps"]
    variables = dict(word.split("=", 1) for word in words[:start])
    return variables, shlex.join(words[start + 3 :])


@pytest.mark.parametrize(
    "kind",
    [kind if kind in DAILY else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in KINDS],
)
def test_every_kind_of_row_is_measured_again_by_its_command(kind: str, again: Again) -> None:
    first = again(KINDS[kind])
    record = record_of(first)
    variables, line = command_of(record)
    assert not variables
    second = again(line)
    assert trial_of(second) == trial_of(first)
    assert command_of(record_of(second)) == (variables, line)


def test_flags_that_change_xla_are_part_of_the_command_and_nothing_else_is(
    again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {
        "XLA_FLAGS": "--xla_cpu_enable_fast_math=true --xla_cpu_max_isa=AVX2",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_CORETYPE": "Haswell",
        "MALLOC_ARENA_MAX": "2",
    }
    for name, value in flags.items():
        monkeypatch.setenv(name, value)
    first = again("seed=1")
    identifier, record = trial_of(first), record_of(first)
    for name in flags:
        monkeypatch.delenv(name)
    assert trial_of(again("seed=1")) != identifier
    variables, line = command_of(record)
    assert (variables, line) == (flags, "seed=1")
    why = next_steps.command_of("explain", summarize([record]).comparisons[0].provenance.command)
    assert shlex.split(why)[: len(flags)] == [f"{name}={flags[name]}" for name in sorted(flags)]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert trial_of(again(line)) == identifier
    loading = dict.fromkeys(("CUDA_INJECTION64_PATH", "NCCL_NET_PLUGIN", "LD_PRELOAD"), "e.so")
    writing = dict.fromkeys(("CUDNN_LOGDEST_DBG", "CUDA_COREDUMP_FILE"), ".bashrc")
    hostile = {"x; rm -rf ~; XLA_FLAGS": "1", **loading, **writing, **flags}
    hostile["XLA_FLAGS"] += " --xla_backend_extra_options=-a=.bashrc --xla_gpu_cuda_data_dir=evil"
    tampered = replace(record, environment={**record.environment, "flags": hostile})
    assert command_of(tampered) == (flags, "seed=1")


HOSTILE = [
    ("sweep", "evil.yaml"),
    ("push", "r", "--force"),
    ("--experimental-rerun=evil.pickle",),
    ("--config-dir", "--multirun", "seed=1"),
    ("hydra.run.dir=elsewhere", "seed=1"),
    ("effort@hydra.job=quick",),
    ("seed=1", "results_dir=/elsewhere"),
    ("seed=1", "tracker.project=theirs"),
    ("seed=1\ntouch pwned\n",),
    ("seed=1", "path=\x1b[201~\x03"),
    ("path=\u202egnp.exe",),
    ("seed=" + "1" * 100_000,),
    ("seed=2",),
    ("model=resnet50", "seed=1"),
    ("model=local", "path=/mnt/share/em.py:build", "trust_code=true", "seed=1"),
    ("path=/mnt/share/em.py:build", "seed=1"),
    ("import=/mnt/share/em.py", "seed=1"),
    ("trust_code=true", "seed=1"),
    ("--config-dir", "/mnt/share/cd", "model=x", "seed=1"),
    ("--trust-config", "/mnt/share/cd", "seed=1"),
    ("--trust-config=/mnt/share/cd", "seed=1"),
    ("--config-dir", "/mnt/share/cd", "--trust-config=/mnt/share/cd", "seed=1"),
    ("+theirs=x", "seed=1"),
    ("xla_flags.xla_backend_extra_options=-a=.bashrc", "seed=1"),
    ("xla_flags={xla_cpu_enable_fast_math:true}", "seed=1"),
]


def test_a_record_cannot_make_a_command_of_anything_but_a_trial(again: Again) -> None:
    record = record_of(again("seed=1"))

    def shown(**changes: Any) -> str:
        return summarize([replace(record, **changes)]).comparisons[0].provenance.command

    for words in HOSTILE:
        assert shown(words=words) == "", words
    text = "--a\x1b[201~\ntouch pwned\n"  # which would act on a terminal
    for flags, command in (({"OMP_NUM_THREADS": text}, ""), ({"XLA_FLAGS": text}, "seed=1")):
        tampered = shown(environment={**record.environment, "flags": flags})
        assert tampered.removeprefix("python -m xla_sweeps ") == command


def test_a_trial_that_was_kept_from_the_gpus_says_so(
    again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert command_of(record_of(again("seed=1")))[1] == "seed=1 device=cpu"
    assert command_of(record_of(again("device=auto seed=1")))[1] == "device=auto seed=1"


def test_a_sweeps_trial_whose_process_died_has_the_command_of_any_other(again: Again) -> None:
    given = ["results_dir=r", "tracker.group=g", "timeouts.compile=9"]
    slot = Slot(name="cpu", device=devices.devices()[-1])
    composer = Composer(given, slots=[slot], config_dir=OwnFolder(Path("own")))
    task = composer.task({"model": "tiny", "effort": {"block_s": 0.02}})
    died = record_of(composer.settings(task.words))
    assert died.trial_id in task.trial_ids
    assert trial_of(again(command_of(died)[1])) == died.trial_id
