"""A trial without Hydra or a measuring process: it claims, saves one record and ends.

Started by a launcher as `python quick_trial.py id=ID do=HOW results_dir=DIR ...`. HOW is a
status, or: `die` (kill -9 of itself), `term` (SIGTERM, unhandled), `exitN` (exit code N without a
record), `stop` (SIGSTOP of itself), `hang`, `slow` (3 s, then `ok`), `gate` (until the file now_ok,
or that of the word `until`, is there), `sleep` (until it is stopped, then an interrupted record);
several joined by `+` are for the first, second, ... record of the trial.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import faults  # noqa: F401  (which it may be made to have)
from factories import make_record

from xla_sweeps.errors import ALREADY_MEASURED, LockedError
from xla_sweeps.schema.measurement import Failure, Phase, Status
from xla_sweeps.schema.record import ModelFacts, Record
from xla_sweeps.store.claim import claim_trial
from xla_sweeps.store.store import Store
from xla_sweeps.system.process import Assignment, die_with_parent

MODEL = ModelFacts(name="m", family="F", variant="V", source="s", task="t", resolution_px=8)


def record(trial_id: str, status: str, config: dict[str, str]) -> Record:
    """A record of one round, or of a failure; no two are the same measurement."""
    untracked = {key: value for key, value in config.items() if key != "tracker"}
    failure = Failure(phase=Phase.MEASURE, kind=status, message="as the test asked for")
    return make_record(
        {"graph": 0.01, "xla": 0.01},
        noise=0.1,
        seed=int.from_bytes(os.urandom(3)),
        count=1,
        trial_id=trial_id,
        status=Status(status),
        config={"batch_size": 1, "modes": ["graph", "xla"], **untracked},
        model=MODEL,
        device={"name": "d"},
        finished_at="2026-01-01T00:00:00+00:00",
        request_id="",
        **({} if status == "ok" else {"rounds": (), "failure": failure}),
    )


def main() -> int:
    assignment = Assignment.take(os.environ)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    if assignment.parent:
        die_with_parent(assignment.parent, signal.SIGTERM)
    words = dict(word.split("=", 1) for word in sys.argv[1:])
    store = Store(Path(words["results_dir"]))
    sys.audit("xla_sweeps.worker.import")
    try:
        with claim_trial(store.results_dir, words["id"]):
            count = len(store.keys(words["id"]))
            if count > (assignment.known_records or 0):
                raise LockedError(f"{ALREADY_MEASURED}; skipped (trial {words['id']})")
            steps = words["do"].split("+")
            how = steps[min(count, len(steps) - 1)]
            if how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "term":
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGTERM)
            if how == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            if how.startswith("exit"):
                print("its last words", flush=True)
                return int(how.removeprefix("exit"))
            if how == "hang":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
            if how == "slow":
                time.sleep(3)
                how = "ok"
            if how == "gate":
                while not Path(words.get("until", f"{words['results_dir']}/now_ok")).exists():
                    time.sleep(0.05)
                time.sleep(0.5)
                how = "ok"
            if how == "sleep":
                while not stopped:
                    time.sleep(0.02)
                how = "interrupted"
            sys.audit("xla_sweeps.supervisor.result")
            saved, path = store.save(record(words["id"], how, words))
            ack = os.environ.get("ACK")
            if ack:  # told only after the store acknowledged it
                with open(ack, "a") as handle:  # noqa: PTH123
                    handle.write(f"{saved.trial_id} {saved.replicate}\n")
            if assignment.recorded:
                with open(assignment.recorded, "a") as handle:  # noqa: PTH123
                    handle.write(f"{path}\n")
            return 143 if how == "interrupted" else 0
    except LockedError as error:
        print(f"error: {error}", flush=True)
        return 75


if __name__ == "__main__":
    sys.exit(main())
