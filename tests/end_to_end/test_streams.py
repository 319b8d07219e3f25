"""Whoever follows a command, or stops following it, changes nothing of what it measures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from paths import SUPPORT
from programs import run_program

from xla_sweeps.errors import USAGE_CODE

TRIAL = f"{sys.executable} {SUPPORT / 'fake_trial.py'}"
SWEEP = f"{sys.executable} {SUPPORT / 'fake_sweep.py'}"
ARGUMENTS = "model=mobilenet_v2 resolution=32 modes=[graph,xla] tracker=none ui=plain"


def shell(script: str, folder: Path, code: int = 0, /, **environ: str) -> CompletedProcess[str]:
    words = ("bash", "-o", "pipefail", "-c", script)
    return run_program(*words, cwd=folder, more={"FAKE_WORKER": "", **environ}, code=code)


def records(folder: Path) -> int:
    return len(list(folder.glob("results/records/*/*.json")))


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        ("0<&- 2>&1 | head -1", ""),
        *(
            pytest.param(streams, "", marks=pytest.mark.exhaustive)
            for streams in ("0<&- >&- 2>&-", "2>/dev/full", "2>&-", ">&-", "> >(true)")
        ),
        (">/dev/full", "xla-sweeps: cannot write to standard output: No space left on device\n"),
    ],
)
def test_a_trial_is_measured_saved_and_exits_with_0_whatever_becomes_of_its_output(
    streams: str, said: str, tmp_path: Path
) -> None:
    done = shell(f"{TRIAL} {ARGUMENTS} {streams}", tmp_path)
    assert records(tmp_path) == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith(said)


@pytest.mark.parametrize(
    "streams",
    ["2>/dev/full >&-", "2>&1 | head -2"],
)
@pytest.mark.exhaustive
def test_a_sweep_measures_all_its_trials_whatever_becomes_of_its_output(
    streams: str, tmp_path: Path
) -> None:
    parameters = {"model": {"value": "mobilenet_v2"}, "batch_size": {"values": [1, 2]}}
    (tmp_path / "s.yaml").write_text(json.dumps({"method": "grid", "parameters": parameters}))
    words = "modes=[graph,xla] tracker=none effort.duplicates=0"
    shell(f"{SWEEP} sweep s.yaml {words} {streams}", tmp_path)
    assert records(tmp_path) == 2


@pytest.mark.parametrize(
    "environ",
    [{"PYTHONIOENCODING": "ascii", "COLUMNS": "wide"}, {"COLUMNS": "²", "LINES": "-1"}],
)
@pytest.mark.exhaustive
def test_an_encoding_without_our_signs_and_a_width_that_is_no_number_change_only_the_looks(
    environ: dict[str, str], tmp_path: Path
) -> None:
    done = shell(f"{TRIAL} {ARGUMENTS}", tmp_path, **environ)
    assert done.stderr.count("\n") == 11
    assert "is ambiguous: 1.00" in done.stdout
    if "PYTHONIOENCODING" in environ:
        assert "(open: 95 % 0.937-1.067, 1 replicate)" in done.stdout
        assert done.stdout.isascii()


@pytest.mark.parametrize(
    "words", ["models", "--help", "help", "--version", "-h", "results --help", "model=x --help"]
)
def test_a_command_whose_output_is_lost_says_so_in_one_line(words: str, tmp_path: Path) -> None:
    done = shell(f"{sys.executable} -m xla_sweeps {words} >/dev/full", tmp_path, USAGE_CODE)
    line = "xla-sweeps: cannot write to standard output: No space left on device\n"
    assert done.stderr == line
