"""A job: how its end is told from its exit code."""

from __future__ import annotations

import msgspec
import pytest

from xla_sweeps.sweep.launchers.job import End, Ended, ended_with


@pytest.mark.parametrize(
    ("exit_code", "said", "how", "detail"),
    [
        (0, "bye", End.FINISHED, ""),
        (2, "unknown model", End.FAILED, "unknown model"),
        (75, "locked", End.LOCKED, "exit code 75: locked"),
        (-9, "", End.DIED, "SIGKILL"),
        (137, "oops", End.DIED, "SIGKILL: oops"),
        (143, "", End.STOPPED, "SIGTERM"),
    ],
)
def test_how_a_job_ended_is_told_from_its_exit_code_and_last_line(
    exit_code: int, said: str, how: End, detail: str
) -> None:
    ended = ended_with(exit_code, said, slot="n0", records=(b"{}",))
    assert ended == Ended(how=how, slot="n0", detail=detail, records=(b"{}",))
    assert msgspec.json.decode(msgspec.json.encode(ended), type=Ended) == ended
