"""The command `sweep` before it runs: dry runs and wrong files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT


def sweep_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xla_sweeps", "sweep", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(cwd)},
    )


def test_a_dry_run_prints_the_commands_a_person_would_type(tmp_path: Path) -> None:
    done = sweep_command(
        str(ROOT / "sweeps" / "smoke.yaml"),
        "batch_size=1",
        "--dry-run",
        "resolution=64",
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert (
        done.stdout.splitlines()[0]
        == "python -m xla_sweeps model=mobilenet_v2 jit=true batch_size=1 resolution=64"
    )
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == (
        "smoke: 3 trials; 0 done, 3 to measure (3 replicates)\n"
        "no estimate of the time: nothing like it has been measured into this folder yet\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("method: grid\nparameters: [1\nx: 2\n", ": not valid YAML: "),
        ("a: &x 1\nb: *x\n", ":2: YAML aliases are not allowed"),
        (
            "method: grid\nparameters: {model: {values: [resnet5]}}\n",
            "s.yaml:2: unknown model 'resnet5'. Did you mean 'resnet50'?",
        ),
        (
            "method: grid\nparameters: {seed: {min: 1, max: 20000}}\n",
            "20,000 trials are more than --max-trials=10,000",
        ),
    ],
)
def test_a_wrong_file_is_reported_in_one_line_with_exit_code_2(
    text: str, line: str, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(text)
    done = sweep_command("s.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_absent_file_is_reported_in_one_line(tmp_path: Path) -> None:
    assert (
        sweep_command("none.yaml", cwd=tmp_path).stderr == "xla-sweeps: none.yaml: no such file\n"
    )
