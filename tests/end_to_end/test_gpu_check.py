"""`scripts/gpu_check` asks for trials that exist, resumes, and ends with a page and records."""

from __future__ import annotations

import shlex
import tarfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from made_files import make_programs
from paths import ROOT
from programs import run_program

from xla_sweeps.sweeps.compose import Composer
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.system.devices import Device

CHECK = ROOT / "scripts" / "gpu_check"

GPU = Device(kind="gpu", index=0, name="H100", memory_bytes=80 * 2**30, capability=(9, 0))

STUB = """#!/bin/sh
case "$1" in
-c) case "$2" in "import $LACKS "*) exit 1 ;; "import "*) echo 1.0; exit ;; esac ;;
-P) shift; echo "$@" >> ../asked
    case "$*" in
    "-m xla_sweeps results "*) exit ;;
    *"path=huge.py"*) mkdir -p results/records; echo '"oom_gpu"' > results/records/1; exit 1 ;;
    *"$FAILS"*) exit 1 ;;
    -m*) mkdir -p results/records; exit ;;
    *"streams.py --out"*) echo model,mode > "$3" ;;
    esac ;;
esac
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter that has all frameworks but `LACKS`, and notes what it is asked to measure."""
    return make_programs(tmp_path, STUB, "python") / "python"


def checked(python: Path, out: Path, **more: str) -> CompletedProcess[str]:
    told = {"PYTHON": str(python), "LACKS": "nothing", "FAILS": "nothing", **more}
    return run_program(CHECK, out, "gpu:0", more=told, limit_s=60)


def asked(tmp_path: Path) -> list[list[str]]:
    """Words of the trials that were asked for since the last time."""
    notes = tmp_path / "asked"
    lines = notes.read_text().splitlines()
    notes.unlink()
    return [shlex.split(line)[2:] for line in lines if line.startswith("-m xla_sweeps model")]


def modes_of(trials: Sequence[Sequence[str]]) -> list[str]:
    return [word for words in trials for word in words if word.startswith("modes=")]


def test_each_trial_that_it_asks_for_is_one_that_can_be_measured(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = checked(python, tmp_path / "out")
    trials = asked(tmp_path)
    assert len(trials) == 3 * 7 + 2
    assert "modes=[graph,xla,jax_xla,torch_export]" in modes_of(trials)
    monkeypatch.chdir(tmp_path / "out")
    monkeypatch.setattr("xla_sweeps.system.environment.is_installed", lambda module: True)
    composer = Composer((), slots=[Slot(name="gpu:0", device=GPU)])
    for words in trials:
        assert composer.settings(words).trial.batch_size <= 256
    page = (tmp_path / "out" / "page.txt").read_text()
    assert page.count("exit code 0") == 3 * 7 + 2
    assert page.count("exit code 1") == 3, "what does not fit into memory"
    assert "out of the GPU's memory: 1 of 3" in done.stdout
    assert "nothing is missing" in done.stdout
    with tarfile.open(tmp_path / "out" / "records.tar.xz") as packed:
        assert {"results/records/1", "done.txt", "streams-jax.csv"} <= set(packed.getnames())


def test_a_framework_that_is_not_there_is_left_out(python: Path, tmp_path: Path) -> None:
    checked(python, tmp_path / "out", LACKS="tensorflow")
    modes = modes_of(asked(tmp_path))
    assert len(modes) == 2 * 7
    assert not any("graph" in words or "[xla" in words for words in modes)
    assert "no tensorflow here" in (tmp_path / "out" / "page.txt").read_text()


def test_it_ends_where_the_time_is_over_and_measures_what_is_missing_the_next_time(
    python: Path, tmp_path: Path
) -> None:
    done = checked(python, tmp_path / "out", SECONDS_IN_ALL="0")
    assert done.stdout.count("the time is over") == 3 * 8 + 2
    assert f"measure what is missing with: {CHECK} {tmp_path}/out gpu:0" in done.stdout
    done = checked(python, tmp_path / "out", FAILS="batch_size=1 ")
    failed = [line for line in done.stdout.splitlines() if line.startswith("missing: ")]
    assert len(failed) == 3
    assert all("batch_size=1 " in line and line.endswith("exit code 1") for line in failed)
    assert len(asked(tmp_path)) == 3 * 7 + 2
    assert "nothing is missing" in checked(python, tmp_path / "out").stdout
    again = asked(tmp_path)
    assert len(again) == 3
    assert all("batch_size=1" in words for words in again)
