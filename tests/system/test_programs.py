"""Programs of a backend, run to their end: what they say, and why they fail."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.system import programs


def ended(code: str, *words: str, limit_s: float = 60.0) -> programs.Ended:
    told = replace(default_backend(), programs={"tells": (sys.executable, "-c", code)})
    return programs.run(told, "tells", *words, limit_s=limit_s)


def test_a_program_gets_its_words_no_input_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    says = "import os, sys; print(sys.argv[1:], sys.stdin.read(), 'WANDB_API_KEY' in os.environ)"
    done = ended(says, "one", "two")
    assert (done.code, done.output) == (0, b"['one', 'two']  False" + os.linesep.encode())


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit('the last line')", "the last line"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os; os.abort()", "exit code -6"),
    ],
)
def test_a_program_that_fails_says_why(code: str, reason: str) -> None:
    done = ended(code)
    assert done.code
    assert done.reason == reason


def test_what_a_program_said_before_its_time_limit_is_kept() -> None:
    says = "import sys, time; print('first', flush=True); sys.stderr.write('why'); time.sleep(60)"
    done = ended(says, limit_s=2.0)
    assert (done.code, done.output, done.log) == (None, b"first\n", "why")
    assert done.reason == "no answer within 2 s"


def test_a_backend_without_the_program_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no program for this: sings"):
        programs.run(default_backend(), "sings")
