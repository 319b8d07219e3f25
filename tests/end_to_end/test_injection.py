"""Somebody else's file or server runs nothing, names no file and learns no secret."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import forked
from foreign_place import KEY, TRIAL, contents, refused
from made_files import make_files

from xla_sweeps.cli.main import run
from xla_sweeps.store.store import Store

CALLBACK = """\
hydra:
  callbacks:
    e: {_target_: pathlib.Path.touch, _args_: [pwned]}
"""

BOMB = "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


class Touch:
    """Touches a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("pwned"),)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"accelerator": "a100\ntouch pwned\n#"}, "holds a control character"),
        ({"accelerator": "a100'$(touch pwned)"}, "holds a $"),
        ({"accelerator": "a100';touch pwned"}, "expected a part of a device's name"),
        ({"accelerator": "***"}, "expected a part of a device's name"),
        ({"_target_": "os.system"}, "_target_ in"),
        ({"effort": {"_target_": "pathlib.Path.write_text"}}, "_target_ in"),
        ({"hydra.launcher._target_": "os.system"}, "_target_ in"),
        ({"tracker": {"_target_": "os.system"}}, "_target_ in"),
        ({"model": "${oc.env:WANDB_API_KEY}"}, "holds a $"),
        ({"results_dir": "${oc.env:HOME}"}, "results_dir names files"),
        ({"weights": "${oc.env:WANDB_API_KEY}"}, "holds a $"),
        ({"model": "../../../etc/passwd"}, "expected a name"),
        ({"source": "/etc/passwd"}, "/etc/passwd"),
        (
            {"tracker.entity": "${oc.${tracker.project}:WANDB_API_KEY}"},
            "holds a $: write the value",
        ),
        ({"tracker": {"group": "${oc.env:WANDB_API_KEY}"}}, "holds a $"),
        ({"tracker.tags": ["${oc.env:WANDB_API_KEY}"]}, "holds a $"),
        ({"++hydra.job.env_set": {"PYTHONPATH": "evil"}}, "unknown option '++hydra.job.env_set'"),
        (
            {"++hydra.job_logging": {"version": 1, "root": {"handlers": ["h"]}}},
            "unknown option '++hydra.job_logging'",
        ),
        ({"hydra.searchpath": ["file://evil"], "effort": "mine"}, "unknown option"),
        ({"hydra/launcher": "evil"}, "unknown option 'hydra/launcher'"),
        ({"effort@hydra.job": "quick"}, "unknown option 'effort@hydra.job'"),
        ({"effort": "../../../../evil/effort/mine"}, "expected a name"),
        ({"model.name": "local"}, "model has no keys; write model=NAME"),
        ({"model": {"name": "local"}}, "model has no keys; write model=NAME"),
        ({"trust_code": True}, "trust_code names files or runs code"),
        ({"path": "em.py:build"}, "add path=PATH there"),
        ({"+trust_code": True}, "unknown option '+trust_code'"),
        ({"results_dir": "/tmp/elsewhere"}, "add results_dir=DIR there"),
        ({"weights": "https://evil.example/w.h5"}, "expected a name"),
        ({"weights": "em.h5"}, "expected a name"),
        ({"weights": "Makefile"}, "expected a name"),
        ({"weights": "[" * 300}, "expected a name"),
        ({"data": "/etc"}, "expected a name; a path or an address goes on your own command line"),
        ({"data": "../pictures"}, "expected a name"),
        ({"input_spec": list(range(2000))}, "more than 1,000 values"),
        ({"tracker.notes": "?" + "key" * 60_000}, "a text of more than 10,000 characters"),
        ({"tracker.notes": "a\x1b[2Jb"}, "holds a control character"),
    ],
    ids=str,
)
@pytest.mark.parametrize("launcher", ["slurm", pytest.param("local", marks=pytest.mark.exhaustive)])
def test_a_sweep_file_sets_values_and_nothing_else(
    parameters: dict[str, Any],
    reason: str,
    launcher: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = {"model": "mobilenet_v2", **parameters}
    values = {name: {"value": value} for name, value in given.items()}
    files = {
        "evil/effort/mine.yaml": f"# @package _global_\n{CALLBACK}",
        "em.py": "open('pwned', 'w')\n",
        "Makefile": "all:\n",
        "s.yaml": yaml.safe_dump({"method": "grid", "parameters": values}),
    }
    make_files(place, files)
    error = refused(place, ["sweep", "s.yaml", "--launcher", launcher], capsys)
    assert error.startswith(("xla-sweeps: s.yaml", "xla-sweeps: _target_ in s.yaml:"))
    assert reason in error


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ["tracker.project=env", "tracker.group='${oc.${tracker.project}:WANDB_API_KEY}'"],
            "oc.env",
        ),
        (["hydra.job.chdir=true"], "of Hydra's own options only hydra.run.dir"),
        (["++hydra.callbacks.e={x: 1}"], "of Hydra's own options only"),
        (["hydra.mode=MULTIRUN"], "of Hydra's own options only"),
        (["hydra/sweeper=basic"], "of Hydra's own options only"),
        (["+effort@hydra.job=quick"], "@ is not allowed"),
        (["effort=../evil"], "expected the name of a file in effort/, not a path"),
        (["-cp", "evil"], "unknown option '-cp'"),
        (["-cpevil"], "unknown option '-cpevil'"),
        (["--config-path=evil"], "unknown option '--config-path'"),
        (["--config-n", "evil"], "unknown option '--config-n'"),
        (["--experimental-rerun", "evil.pickle"], "unknown option '--experimental-rerun'"),
        (["--exp=evil.pickle"], "unknown option '--exp'"),
        (["--hydra-help", "hydra.searchpath=[evil]"], "--hydra-help: remove"),
        (["--cfg", "job", "--info"], "--cfg and --info: give one of them"),
        (["--info", "nosuch"], "invalid choice: 'nosuch'"),
    ],
    ids=str,
)
def test_hydras_own_options_are_refused_but_for_a_few(
    arguments: list[str], reason: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_files(place, {"evil/config.yaml": "results_dir: ${oc.env:WANDB_API_KEY}\n"})
    (place / "evil.pickle").write_bytes(pickle.dumps(Touch()))
    assert reason in refused(place, [*TRIAL, *arguments], capsys)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"# @package _global_\n{CALLBACK}", "mine.yaml:2: a file may not configure"),
        ("# @package hydra.job\nenv_set: {A: b}\n", "'# @package hydra.job': allowed are"),
        (
            "defaults: [{override /hydra/job_logging: x}]\n",
            "mine.yaml:1: a file may not configure Hydra",
        ),
        ("defaults: [/effort/other@hydra.job]\n", "expected the name of a file"),
        ("defaults: [../../evil]\n", "expected the name of a file"),
        ("defaults:\n- /effort: ../../evil\n", "expected the name of a file"),
        ("# @package _global_\ntrust_code: true\n", "trust_code names files or runs"),
        ('# @package _global_\n"path": em.py:build\n', "path names files or runs code"),
        ("# @package _global_\nresults_dir: /tmp/x\n", "results_dir names files"),
        ("name: ${oc.env:WANDB_API_KEY}\n", "mine.yaml:1: '${oc.env:WANDB_API_KEY}' holds a $"),
        ('block_s: "${oc.${.name}:WANDB_API_KEY}"\nname: env\n', "holds a $"),
        ("_target_: pathlib.Path.touch\n", "_target_ in"),
        (BOMB, "YAML aliases are not allowed"),
        (
            "# @package _global_\n<<: {path: 'em.py:build', trust_code: true}\n",
            "mine.yaml:2: expected a word as key",
        ),
        (
            "# @package _global_\n<<: {defaults: [{/effort@hydra.job.env_set: e}]}\n",
            "mine.yaml:2: expected a word as key",
        ),
        ("# mine\n# @package _global_\nseed: 1\n", "must be the first line"),
        ("defaults: [" + "a" * 60 + "!]\n", "expected the name of a file"),
        ("\n" * 100_000 + "seed: 1\n", "unknown option of effort 'seed'"),
        ("# @package _global_\nweights: /tmp/w.h5\n", "expected a name"),
        ("a: [" + "1, " * 2000 + "1]\n", "more than 1,000 values"),
    ],
)
def test_a_folder_of_configuration_sets_values_and_nothing_else(
    text: str, reason: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_files(place, {"dir/effort/mine.yaml": text})
    assert reason in refused(place, ["--config-dir", "dir", *TRIAL, "effort=mine"], capsys)


FOREIGN = "a file may not configure Hydra"

RUNS_CODE = "configuration never runs code; remove it"

PACKAGE = "'# @package hydra.job': allowed are"


@pytest.mark.parametrize(
    ("path", "text", "word", "foreign", "trusted"),
    [
        ("hydra/launcher/x", "_target_: em.L\n", "hydra/launcher=x", FOREIGN, RUNS_CODE),
        ("e/x", f"# @package _global_\n{CALLBACK}", "+e=x", FOREIGN, RUNS_CODE),
        (
            "e/x",
            "# @package _global_\nhydra: {job: {env_set: {A: b}}}\n",
            "+e=x",
            FOREIGN,
            "x.yaml:2: hydra.job: of Hydra a file may set",
        ),
        (
            "e/x",
            "# @package _global_\nhydra: {searchpath: [evil]}\n",
            "+e=x",
            FOREIGN,
            "x.yaml:2: hydra.searchpath: of Hydra a file may set",
        ),
        ("e/x", "defaults: [{override /hydra/sweeper: basic}]\n", "+e=x", FOREIGN, FOREIGN),
        ("e/x", "# @package hydra.job\nname: x\n", "+e=x", PACKAGE, PACKAGE),
        ("e/x", "a: {_target_: os.system}\n", "+e=x", RUNS_CODE, RUNS_CODE),
        ("e/x", "tracker: {group: '${oc.env:WANDB_API_KEY}'}\n", "+e=x", "oc.env", "oc.env"),
        ("x", f"defaults: [config]\n{CALLBACK}", "--config-name=x", FOREIGN, RUNS_CODE),
        (
            "x",
            "defaults: [config]\nhydra: {searchpath: [evil]}\n",
            "--config-name=x",
            FOREIGN,
            "x.yaml:2: hydra.searchpath: of Hydra a file may set",
        ),
    ],
)
def test_not_even_a_folder_that_is_trusted_runs_code_by_hydra(
    path: str,
    text: str,
    word: str,
    foreign: str,
    trusted: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_files(place, {f"dir/{path}.yaml": text})
    for trust, reason in {"--config-dir": foreign, "--trust-config": trusted}.items():
        assert reason in refused(place, [trust, "dir", *TRIAL, word], capsys)


def test_a_launcher_of_ones_own_is_used_where_the_folder_is_trusted(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_files(place, {"dir/hydra/launcher/mine.yaml": "defaults: [basic]\n"})
    words = [*TRIAL, "hydra/launcher=mine"]
    assert FOREIGN in refused(place, ["--config-dir", "dir", *words], capsys)
    assert run(["--trust-config", "dir", *words, "device=cpu", "--dry-run"]) == 0


OURS = [
    *("xla_sweeps.config", "config", "source/hub", "hydra/config", "hydra/output/default"),
    *("hydra/job_logging/default", "hydra/hydra_logging/default", "hydra/launcher/basic"),
    "hydra/sweeper/basic",
]


def test_no_file_takes_the_place_of_one_of_ours(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in OURS:
        make_files(place, {f"dir/{name}.yaml": f"# @package _global_\n{CALLBACK}seed: 9\n"})
    words = ["model=vit_b16", "source=hub", "tracker=none", "--cfg", "job"]
    for trust in ("--config-dir", "--trust-config"):
        assert run([trust, "dir", *words]) == 0
        assert yaml.safe_load(capsys.readouterr().out)["seed"] == 0


@pytest.mark.parametrize("linked", ["folder", "file"])
def test_a_link_below_a_folder_of_configuration_is_not_followed(
    linked: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_files(place, {"outside/mine.yaml": BOMB})
    (place / "dir").mkdir()
    if linked == "folder":
        (place / "dir" / "effort").symlink_to(place / "outside")
    else:
        (place / "dir" / "effort").mkdir()
        (place / "dir" / "effort" / "mine.yaml").symlink_to(place / "outside" / "mine.yaml")
    error = refused(place, ["--config-dir", "dir", *TRIAL, "effort=mine"], capsys)
    assert "links are not followed here" in error


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ("hub: {handle: 'https://evil.example/m'}", "can run any code; add trust_code=true"),
        ("applications: {constructor: VGG16, arguments: {weights: em.h5}}", "names files"),
        ("keras_hub: {constructor: VGGBackbone, preset: 'hf://evil/m'}", "names files"),
    ],
)
def test_a_model_of_somebody_elses_folder_brings_no_code(
    recipe: str, reason: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = (
        "name: mine\nfamily: f\nvariant: v\ntask: classification\nresolution: 224\n"
        f"min_resolution: 32\nsources:\n  {recipe}\n"
    )
    make_files(place, {"dir/model/mine.yaml": model})
    arguments = ["--config-dir", "dir", "model=mine", "tracker=none", "weights=imagenet"]
    assert reason in refused(place, arguments, capsys)


def test_a_name_that_is_a_path_stays_inside_the_results_folder(place: Path) -> None:
    definition = {
        "name": "../../../../outside/x",
        "method": "grid",
        "parameters": {
            "model": {"value": "mobilenet_v2"},
            "modes": {"value": ["graph", "xla"]},
            "tracker.group": {"value": "of the file"},
            "effort.duplicates": {"value": 0},
        },
    }
    (place / "s.yaml").write_text(json.dumps(definition))
    own = {"FAKE_WORKER": "", "TMPDIR": str(place.parent / "tools")}
    done = forked("sweep", "sweep", "s.yaml", "ui=quiet", cwd=place, more=own)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("../../../../outside/x: 1 trial: 1 ok")
    assert {path.name for path in place.parent.iterdir()} <= {"place", "tools", "leases"}
    assert {path.name for path in place.iterdir()} == {"s.yaml", "results"}
    (logs,) = (place / "results" / "logs" / "sweeps").iterdir()
    assert logs.name.startswith("outside_x-")
    ((record,),) = Store(place / "results").load().records.values()
    assert record.tracker.group == "of the file"
    assert not [name for name, content in contents(place).items() if KEY.encode() in content]
