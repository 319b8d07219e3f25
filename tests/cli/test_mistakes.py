"""Every mistake is refused in one line with exit code 2, and nothing is written.

The command line runs in this process: a mistake is found before anything starts.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
import yaml
from composed import cases

from xla_sweeps.cli.main import run
from xla_sweeps.errors import USAGE_CODE
from xla_sweeps.system.installation import install

LONG = "x" * 300

SWEEP = "method: grid\nparameters:\n  model: {value: mobilenet_v2}\n"

RANDOM = f"run_cap: 3\n{SWEEP.replace('grid', 'random')}"


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The line that a request is refused with, in the working folder."""
    before = sorted(Path().rglob("*"))
    assert run(arguments) == USAGE_CODE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("xla-sweeps: ")
    assert err.count("\n") == 1, err
    assert sorted(Path().rglob("*")) == before
    return err.removeprefix("xla-sweeps: ")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)


REFUSED = """
memory_limit_gib=1e308 -> memory_limit_gib=1e+308: must be at most 1,048,576
timeouts.build=1e300 -> timeouts.build=1e+300: must be at most 10,000,000
'~model' -> ~model: it cannot be removed; set it: model=NAME
'~timeouts' -> ~timeouts: it cannot be removed; set it: timeouts.STAGE=S
'~effort' -> ~effort: it cannot be removed
'~tracker' -> ~tracker: it cannot be removed; set it: tracker=NAME
--shell-completion -> --shell-completion: give install=SHELL, uninstall=SHELL
import f.csv --into r -> command 'import' was removed: for the study's figures use results
hlep -> unknown command 'hlep'. Did you mean 'help'?
resnet50 -> unknown command 'resnet50'. Did you mean 'model=resnet50'? `xla-sweeps
my.keras -> unknown command 'my.keras'. A model of your own: model=local path=my.keras
model=a.keras
  -> unknown model 'a.keras'. A model of your own: model=local path=a.keras trust_code=tr
model=my_models:build -> unknown model 'my_models:build'. A model of your own: model=l
model=./net.py:build -> unknown model './net.py:build'. A model of your own: model=l
model=../sub/net.py -> unknown model '../sub/net.py'. A model of your own: model=local
model=/nowhere/net.keras -> unknown model '/nowhere/net.keras'. A model of your own: model=l
model=net.onnx -> unknown model 'net.onnx'. .onnx files are not read; convert
--resolution 96 -> --resolution: write it without dashes: resolution=96
model=vgg16 --batch-size=8 -> --batch-size: write it without dashes: batch_size=8
--effort.block_s 1 -> --effort.block_s: write it without dashes: effort.block_s=1
=-1 -> '=-1': expected KEY=VALUE, as in model=resnet50
--config-dir d effort=mine -> Invalid defaults list in 'effort/mine', defaults mu
--verson -> unknown option '--verson'. Did you mean '--version'?
sweep own -> sweep own: a file is named in full: own.yaml
sweep smoek -> unknown sweep 'smoek'. Did you mean 'smoke'? `xla-sweeps sweep --lis
modle=vgg16 -> unknown option 'modle'. Did you mean 'model'?
sweep -> sweep: the following arguments are required: file; `xla-sweeps sweep --help
hydra/launcher=bsic -> unknown hydra/launcher 'bsic'. Did you mean 'basic'? Allowed:
results_dir=/dev/null -> '/dev/null': expected a folder
doctor --seconds -1 -> --seconds -1.0: expected 0 to 3600
doctor --seconds nan -> --seconds nan: expected 0 to 3600
doctor --seconds 1e9 -> --seconds 1000000000.0: expected 0 to 3600
agents a/b/c --max-failed 0 -> agents: argument --max-failed: expected an in
results f -> 'f': expected a folder
check f/g -> 'f/g': Not a directory
compare f loop -> 'f': expected a folder
dashboard loop -> 'loop': Too many levels of symbolic links
dashboard '~nobody-of-that-name/x' -> '~nobody-of-that-name/x': Could not determine
sweep s.yaml --dry-run results_dir=/dev/null -> '/dev/null': expected a
sweep '' -> expected a path, got ''
-m 'seed=range(0,1000000000)' -> -m: 1,000,000,000 trials are more than 10,000
-m seed=1,2 'batch_size=range(0)' -> batch_size=range(0): no value
model=null -> unknown model 'null'.
+effort=1 -> unknown effort '1'. Allowed:
+effort=quick -> '+effort=quick': it has a value already; write effort=quick
++model=vgg16 -> '++model=vgg16': it has a value already; write model=vgg16
'effort=[1]' -> unknown effort '[1]'. Allowed:
'{"model": true}' -> unknown model 'True'
hydra.run.dir=loop -> 'loop': Too many levels of symbolic links
-m hydra.sweep.dir=f seed=1,2 -> 'f': expected a folder
--hydra-help seed=1 -> --hydra-help: remove seed=1
--shell-completion seed=1 -> --shell-completion: give install=SHELL
tracker.group=a,b
  -> 'tracker.group=a,b' gives several values: add -m to run each of them. Quote what is a text: 'tr
batch=4 -> unknown option 'batch'. Did you mean 'batch_size'? `xla-sweeps --help` lists all
jit_compile=true -> unknown option 'jit_compile'. Did you mean 'jit'? `xla-sweeps --help` lists all
workers=3 -> unknown option 'workers'. `xla-sweeps --help` lists all
modes=graph,xla
  -> 'modes=graph,xla' gives several values: add -m to run each of them. One trial of all: 'modes=[
batch_size=1:5 -> batch_size=1:5: expected an integer; for several trials add -m: 'batch_size=range
'model=mobile*' -> unknown model 'mobile*'. For all that match: -m 'model=glob(mobile*)'.
'threads=[]' -> threads: write threads.KEY=N
tracker=wandb -> tracker=wandb: W&B needs an API key
resuls -> unknown command 'resuls'. Did you mean 'results'? `xla-sweeps --help` lists all 21.
results --format xml -> results: argument --format: invalid choice: 'xml'
results --where modle=tiny -> where, character 1: unknown column 'modle'; did you mean 'model'?
results nowhere -> nowhere holds no records; measure first: python -m xla_sweeps model=NAME
models alexnet -> unknown model 'alexnet'.
-m batch_size=1,0 -> batch_size=0: must be at least 1
hydra.sweeper._target_=os.system -> _target_ in override
results_dir=/proc/nope -> results_dir=/proc/nope cannot be written: No such file or directory.
'{"model": ' -> the argument '{"model": ' is not valid JSON
--config-dir nowhere model=x -> --config-dir nowhere: no such folder
explain -> explain: name a model: xla-sweeps explain model=mobilenet_v2
explain resnet50 -> explain: 'resnet50': expected KEY=VALUE, as in model=resnet50
explain model=resnet5 -> unknown model 'resnet5'. Did you mean 'resnet50'?
explain model=resnet50 resolutoin=96 -> unknown option 'resolutoin'
explain model=resnet50 --ops -> explain --ops: remove model=resnet50
explain --ops --no-trace -> explain --ops: remove --no-trace
explain --ops -o . -> cannot write .: it is a folder
explain model=resnet50 -o missing/known -> cannot write missing/known: there is no folder
explain model=resnet50 --format html -> explain: argument --format: invalid choice: 'html'
explain model=local path=own:deadly -> path=own:deadly: no module 'own' in the current folder
explain model=resnet50,vgg16 -> 'model=resnet50,vgg16' gives several values
explain model=vgg16 scenario=train_step device=cpu
  -> explain: scenario=train_step is not explained; remove
explain model=vgg16 scenario=fit device=cpu -> explain: scenario=fit is not explained; remove
shapes model=mobilenet_v2 -> shapes: give --sizes 224,256,288 or --batches 32,32,7, or both
shapes model=mobilenet_v2 --sizes 224
  -> --sizes 224: expected from 2 to 16 different ones, as in --sizes
shapes model=mobilenet_v2 --batches 8,x -> --batches 8,x: expected numbers from 1, as in 32,32,7
shapes model=mobilenet_v2 --batches 8,0 -> --batches 8,0: expected numbers from 1
shapes model=mobilenet_v2 --batches 8,,3 -> --batches 8,,3: expected numbers from 1
shapes model=mobilenet_v2 --batches b8,b3 -> --batches b8,b3: expected numbers from 1
shapes model=mobilenet_v2 --batches 8,99999
  -> --batches 8,99999: b99999: a batch has at most 65,536
shapes model=vgg16 --sizes 96,128 shapes=[96,128] -> shapes: shapes=[96,128]: remove it
shapes model=vgg16 --sizes 96,128 scenario=call -> shapes: scenario=call: remove it
model=mobilenet_v2 shapes=[b4,b3] -> shapes=[b4,b3]: add scenario=new_shapes
model=mobilenet_v2 scenario=new_shapes shapes=7 -> shapes=[7]: expected from 2 to 16 different
shapes --sizes 224,256 -> shapes: name a model: xla-sweeps shapes model=mobilenet_v2
batch-sizes model=vgg16 batch_size=4
  -> batch-sizes: batch_size=4: remove it; --sizes chooses the sizes
batch-sizes model=vgg16 --sizes 1,x -> --sizes 1,x: expected
batch-sizes model=vgg16 --sizes 0 -> --sizes 0: expected
compatibility mobilnet device=cpu
  -> unknown model, family or source 'mobilnet'. Did you mean 'mobilenet'?
compatibility layers:LSTN device=cpu -> unknown layer 'LSTN'. Did you mean 'LSTM'?
compatibility vgg16 scenario=trian_step device=cpu
  -> unknown scenario 'trian_step'. Did you mean 'train_step'?
compatibility vgg16 model=vgg19 device=cpu -> compatibility: give vgg16 or model=, not both
compatibility vgg16 source=hub device=cpu -> compatibility: no model has this source
compatibility vgg16 resolution=7 device=cpu -> resolution=7: too small for vgg16
predict-cost mobilenet_v2 -> predict-cost: 'mobilenet_v2': expected KEY=VALUE, as in model=mob
predict-cost -> predict-cost: name a model: xla-sweeps predict-cost model=mobilenet_v2
predict-cost keras=2 -> predict-cost: name a model
predict-cost batch_size=4 -> predict-cost: batch_size=4: remove it; --batch-sizes chooses the sizes
predict-cost batches=4 -> predict-cost: batches=4: remove it; --batches chooses the numbers of batch
predict-cost effort.duplicates=2
  -> predict-cost: effort.duplicates=2: remove it; effort.replicates chooses how often each size is
predict-cost scenario=call -> predict-cost: scenario=call: remove it; the scenario is predict
predict-cost --batch-sizes 8 -> --batch-sizes 8: expected at least 2 different numbers from 1
predict-cost --batch-sizes 1,x,8 -> --batch-sizes 1,x,8: expected at least 2 different numbers
predict-cost --batches 0 -> --batches 0: expected numbers from 1
predict-cost --samples 1000 -> --samples was removed: multiply 'ms a call' by the number of calls
predict-cost --samples=1000 -> --samples was removed: multiply 'ms a call' by the number of calls
guard model=vgg16 --before a --after a --budget 20d
  -> guard: argument --budget: expected a time such as 90s or 4m
guard model=vgg16 --before a --after a --detect 0% -> guard: argument --detect: expected 0.1% to 100
guard model=vgg16 --before a --after a --fail-on slow
  -> unknown condition of --fail-on 'slow'. Did you mean 'slower'?
guard --before a --after a -> guard: name a model
results --price-per-hour=0 -> results: argument --price-per-hour: expected a price above 0
results --price-per-hour=-1 -> results: argument --price-per-hour: expected a price above 0
results --price-per-hour=nan -> results: argument --price-per-hour: expected a price above 0
results --price-per-hour=cheap -> results: argument --price-per-hour: expected a price above 0
compare A -> compare: the following arguments are required: B
compare A B --fail-on slow -> unknown condition of --fail-on 'slow'. Did you mean 'slower'? Allowed:
dashboard --titel x -> dashboard: unrecognized arguments: --titel
dashboard one --compare -> dashboard: --compare needs two results folders, got 1
dashboard nowhere -> nowhere holds no comparison to show; measure first
make-data -> command 'make-data' was removed: docs/training.md draws pictures
make-data pics --images 0 -> command 'make-data' was removed: docs/training.md draws pictures
doctor --device gpu:7 -> device=gpu:7: this machine has
hub-replicas vit_b61 -> unknown model of source=hub 'vit_b61'. Did you mean 'vit_b16'?
sweep none.yaml -> none.yaml: no such file
sweep s.yaml --launcher loca -> sweep: argument --launcher: invalid choice: 'loca'
sweep s.yaml --devices gpu:9 -> --devices=gpu:9: no device gpu:9; this machine has
sweep s.yaml --devices cpu,cpu -> --devices=cpu,cpu: name each device once
sweep s.yaml --rerun verdict -> sweep: argument --rerun: verdict: expected KEY=VALUE
sweep s.yaml device=cpu --devices cpu -> device=cpu and --devices=cpu: give one of the two
sweep s.yaml device=cpu --launcher ray
  -> device=cpu with --launcher ray: the launcher chooses the device: use --devices
sweep s.yaml --devices cpu --launcher slurm -> --devices is for --launcher local or wandb, not for s
sweep s.yaml --slurm mem=1 --launcher ray -> --slurm is for --launcher slurm, not for ray
sweep s.yaml --chunk 4 -> --chunk is for --launcher slurm, not for local
sweep s.yaml --max-trials 0 -> s.yaml: 1 trials are more than --max-trials=0; raise it if
sweep s.yaml hydra.sweep.dir=d -> hydra.sweep.dir=d: only -m reads it; a sweep takes hydra.run.dir=D
sweep s.yaml hydra/launcher=basic -> hydra/launcher=basic: only -m reads it
sweep s.yaml +hydra.launcher.n_jobs=2 -> +hydra.launcher.n_jobs=2: only -m reads it
sweep s.yaml --retry compile_eror -> unknown status 'compile_eror'. Did you mean 'compile_error'
"""

NO_FOLDERS = """
doctor device=gpu:0 -> doctor: 'device=gpu:0' is no folder; write --device gpu:0
results results_dir=mine -> results: 'results_dir=mine' is no folder; write mine
report batch_size=4 -> report: 'batch_size=4' is no folder; options begin with --
compare a dir=b -> compare: 'dir=b' is no folder; write b
dashboard where=x=1 -> dashboard: 'where=x=1' is no folder; write --where x=1
results --config-dir dir=x -> results: 'dir=x' is no folder; write x
"""
"""Whole lines."""

TOO_LONG = f"{'x' * 60}…: File name too long"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        *cases(REFUSED),
        *((words, f"{line}\n") for words, line in cases(NO_FOLDERS)),
        (["dashboard", "--title", "\udcff"], "the argument '\\udcff' is not valid UTF-8"),
        (["effort.replicates=" + "9" * 30], "effort.replicates=9"),
        ([f"modes=[{','.join(['graph'] * 200)}]"], "modes: 200 of them; a trial compares at"),
        (
            ["seed=" + "1" * 5000],
            f"cannot read the override 'seed={'1' * 55}…': it has a number of",
        ),
        (
            ["input_spec=" + "[" * 40 + "]" * 40],
            f"cannot read the override 'input_spec={'[' * 40}{']' * 9}…': nested deeper than 32",
        ),
        (["input_spec=" + "[" * 3000], f"cannot read the override 'input_spec={'[' * 49}…': "),
        (["model=local", f"path={LONG}", "trust_code=true"], TOO_LONG),
        (
            ["hydra/launcher=joblib"],
            f"hydra/launcher=joblib: install its plugin: {install('hydra-joblib-launcher')}\n",
        ),
        *(([word + LONG], TOO_LONG) for word in ("results_dir=", "--config-dir=")),
        *(
            ([command, LONG], TOO_LONG)
            for command in ("results", "check", "dashboard", "push", "doctor", "sweep")
        ),
        *(
            (
                ["sweep", "s.yaml", "--launcher", "slurm", f"--{option}", "0"],
                f"sweep: argument --{option}: expected an integer from 1 to 1,000,000, got '0'",
            )
            for option in ("slots", "chunk")
        ),
    ],
)
def test_a_request_that_cannot_be_carried_out_says_what_is_allowed(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("f").write_text("no folder")
    Path("loop").symlink_to("loop")
    for name in ("s.yaml", "own.yaml"):
        Path(name).write_text(SWEEP)
    os.mkfifo("pipe")
    Path("d/effort").mkdir(parents=True)
    Path("d/effort/mine.yaml").write_text("defaults: {a: b}\nblock_s: 0.1\n")
    assert refusal(arguments, capsys).startswith(line)


@pytest.mark.parametrize("command", ["dashboard", "doctor", "model=vgg16"])
def test_a_current_folder_that_was_removed_is_named(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()
    assert run([command]) == USAGE_CODE
    line = "xla-sweeps: the current folder cannot be used: No such file or directory\n"
    assert capsys.readouterr().err == line


def test_the_bare_command_prints_its_usage_and_measures_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([]) == USAGE_CODE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: xla-sweeps model=NAME")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("definition", "line"),
    [
        (f"{SWEEP}  seed: !!python/object/apply:os.system [id]\n", "s.yaml:4: the tag"),
        (f"{SWEEP}  seed: {{min: 0, max: 1000000000}}\n", "s.yaml: 1,000,000,001 trials are more"),
        (f"{SWEEP}  seed: {{min: 0, max: 1.0e+15, q: 1, distribution: q_uniform}}\n", "s.yaml: mo"),
        ("method: grid\nparameters: [1\nx: 2\n", "s.yaml:3: not valid YAML: "),
        ("a: &x 1\nb: *x\n", "s.yaml:2: YAML aliases are not allowed; write the value itself"),
        (
            f"{SWEEP}  <<: {{seed: {{value: 1}}}}\n",
            "s.yaml:4: expected a word as key, not <<; write the keys themselves",
        ),
        (
            f"{SWEEP}  batch_size: {{values: ['8']}}\n",
            "s.yaml:4: batch_size=8: expected an integer; '8' is a text; write 8 without quotes",
        ),
        (
            f"{SWEEP}  effort.block_s: {{value: '0.1'}}\n",
            "s.yaml:4: effort.block_s=0.1: expected a number above 0; '0.1' is a text; write 0.1",
        ),
        (f"{SWEEP}  seed: {{min: '1', max: 2}}\n", "s.yaml:4: parameters.seed.min: '1' is a text"),
        (f"{SWEEP}run_cap: '3'\n", "s.yaml:4: run_cap=3: expected an integer above 0; '3' is a"),
        (f"{SWEEP}run_cap: '3.0'\n", "s.yaml:4: run_cap=3.0: expected an integer above 0\n"),
        (f"{SWEEP}run_cap: '0'\n", "s.yaml:4: run_cap=0: expected an integer above 0\n"),
        (
            f"{SWEEP}  effort.block_s: {{value: 1}}\n"
            "  effort: {parameters: {block_s: {value: 2}}}\n",
            "s.yaml:5: parameters.effort.block_s: it is there twice, nested and with dots; keep",
        ),
        (
            f"{SWEEP}  seed: {{distribution: beta, a: 1, b: 2}}\n",
            "s.yaml:4: parameters.seed: unknown distribution 'beta'. Allowed: ",
        ),
        (SWEEP.replace("mobilenet_v2", "null"), "s.yaml:3: unknown model 'null'."),
        (
            "method: grid\nparameters:\n  learning_rate: {value: null}\n  model: {value: null}\n",
            "s.yaml:4: unknown model 'null'.",
        ),
        (
            SWEEP.replace("mobilenet_v2", "[vgg16, vgg19]"),
            "s.yaml:3: unknown model '[vgg16,vgg19]'. For several: values: [vgg16,vgg19] in a ",
        ),
        (SWEEP.replace("_v2", "_v22"), "s.yaml:3: unknown model 'mobilenet_v22'. Did you mean 'm"),
        (
            f"{SWEEP}  device: {{values: [cpu]}}\n",
            "s.yaml:4: the launcher chooses the device: use ",
        ),
        (f"{SWEEP}parameters: {{}}\n", "s.yaml:4: 'parameters' is already in line 2; keep one"),
        (f"{SWEEP}run_cap: {'9' * 5000}\n", "s.yaml:4: '9999"),
        (
            f"{RANDOM}  memory_limit_gib: {{mu: 1000, distribution: log_normal}}\n",
            "s.yaml:5: memory_limit_gib=1.01423e+304: must be at most",
        ),
    ],
)
def test_a_sweep_file_that_cannot_be_run_says_where(
    definition: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.yaml").write_text(definition)
    assert refusal(["sweep", "s.yaml", "--dry-run"], capsys).startswith(line)


def test_a_sweep_file_in_another_encoding_is_told_to_be_utf_8(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("s.yaml").write_bytes(SWEEP.encode("utf-16"))
    expected = "s.yaml: not UTF-8 (byte 0); save it as UTF-8\n"
    assert refusal(["sweep", "s.yaml", "--dry-run"], capsys) == expected


def test_a_word_that_the_locale_cannot_read_is_told_how_to_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    expected = "the argument 'results_dir=\\udcc3' is not valid ASCII; set PYTHONUTF8=1\n"
    assert refusal(["results_dir=\udcc3"], capsys) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["push"],
        *(
            pytest.param(words, marks=pytest.mark.exhaustive)
            for words in (["agents", "a/b/c"], ["tracker=wandb"])
        ),
    ],
)
def test_a_user_without_a_home_folder_is_told_that_the_key_is_missing(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_entry(*_: object) -> None:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", no_entry)
    assert "W&B needs an API key" in refusal(arguments, capsys)


def test_an_address_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://[::1")
    assert refusal(["push"], capsys).startswith("tracker=wandb: ")


@pytest.mark.parametrize(
    "text",
    [
        *("~/x", "a b&c"),
        *(pytest.param(text, marks=pytest.mark.exhaustive) for text in ("a(1)", "a=b", "é", "a,b")),
    ],
)
def test_a_text_that_must_be_quoted_is_shown_quoted_as_a_shell_takes_it(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal([f"tracker.group={text}", "--cfg", "job"], capsys)
    [quoted] = shlex.split(line.partition("Quote what is a text: ")[2])
    assert run([quoted, "--cfg", "job"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["tracker"]["group"] == text


def test_a_group_of_ones_own_that_is_not_found_is_told_where_it_belongs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = refusal(["+experiment=foo"], capsys)
    assert line.endswith(" A group of your own is a folder experiment/ of --config-dir DIR.\n")


@pytest.mark.parametrize(
    ("words", "meant"),
    [("results --format latx", "latex"), ("results --show poduim", "podium")],
)
def test_a_mistyped_choice_of_an_option_has_the_nearest_match(
    words: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"; did you mean '{meant}'?" in refusal(words.split(), capsys)


def test_a_file_given_as_the_model_is_told_as_a_path_with_its_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("net.py").write_text("def _helper(): ...\ndef make(): ...\n")
    os.mkfifo("pipe.py")  # not opened: it would wait for a writer

    assert "model=local path=./net.py:make trust_code=true" in refusal(["model=./net.py"], capsys)
    assert "path=pipe.py trust_code" in refusal(["model=pipe.py"], capsys)
