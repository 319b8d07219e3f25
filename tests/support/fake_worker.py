"""A measuring process without TensorFlow: it follows a script of steps, and may die in every way.

Started as `python fake_worker.py SCRIPT... PARENT_PID EVENT_DESCRIPTOR`; steps are `say NAME`,
`die`, `hang`, ...
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import msgspec

from xla_sweeps.measure import protocol
from xla_sweeps.schema.measurement import Block, ModeOutcome, Phase, Round, Status
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.faults import fault_point


def outcome() -> ModeOutcome:
    return ModeOutcome(
        status=Status.OK, trace_s=0.1, first_call_s=0.5, compile_s=0.49, latencies_s=(0.01,) * 10
    )


def square(modes: tuple[str, ...], first: int, slower: int) -> protocol.Square:
    rounds = []
    for number in range(first, first + 4):
        now = time.perf_counter_ns() // slower
        length_ns = (10_000_000 + number) * len(modes)
        blocks = tuple(
            Block(mode=mode, calls=1, elapsed_ns=10_000_000 + number, enqueue_ns=10_000)
            for mode in modes
        )
        rounds.append(
            Round(
                round=number,
                order=modes,
                blocks=blocks,
                started_ns=now,
                finished_ns=now + length_ns,
            )
        )
    return protocol.Square(rounds=tuple(rounds))


def misbehave(script: list[str], channel: int) -> None:
    """What a model's code may do while it is built."""
    if "fork" in script and not os.fork():
        time.sleep(600)
    if "setsid" in script and not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(600)
    if "close" in script:
        os.close(channel)
        time.sleep(600)
    if "flood" in script and not os.fork():
        while True:
            os.write(channel, b"x" * (1 << 20))
    if "chatter" in script and not os.fork():
        while True:
            os.write(channel, b"x\n")
            time.sleep(0.001)
    while "deaf" in script:
        os.write(channel, protocol.encode(protocol.Turn()) * 100)
    if "loud" in script:
        for _ in range(40):
            print("x" * (1 << 20), flush=True)
        print("last words", flush=True)


def progressed(measured: int) -> protocol.Progressed:
    return protocol.Progressed(
        measured=measured,
        rounds=measured,
        rounds_max=8,
        half_width=None,
        target=0.01,
        remaining_s=(0.0, 1.0),
    )


def counted(job: ReplicateJob, params: int) -> dict[str, Any]:
    """What an earlier replicate of the same build counted, else a count of its own."""
    known = job.counted
    macs = known.macs if known and known.params == params else 100 + job.replicate
    return {"fingerprint": "ab" * 8, "macs": macs}


def main() -> None:
    *script, _, descriptor = sys.argv[1:]
    out = os.fdopen(int(descriptor), "wb", buffering=0)
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=ReplicateJob)

    def say(event: protocol.Event) -> None:
        if isinstance(event, protocol.Stage):
            fault_point(f"worker.{event.phase}")
        elif isinstance(event, protocol.Square | protocol.Finished):
            fault_point(f"worker.{type(event).__name__.lower()}")
        out.write(protocol.encode(event))

    if any(
        name.startswith("XLA_SWEEPS_FP") for name in os.environ
    ):  # all the stages that there are
        for phase in (Phase.IMPORT, Phase.TRACE, Phase.VERIFY, Phase.WARMUP):
            say(protocol.Stage(phase=phase))
    params = next((int(word[7:]) for word in script if word.startswith("params:")), 7)
    say(protocol.Stage(phase=Phase.BUILD))
    say(protocol.Loaded(environment={"tensorflow": "fake"}))
    say(
        protocol.Built(
            model=ModelFacts(
                name=job.trial.model.name,
                family=job.trial.model.family,
                variant=job.trial.model.variant,
                source=job.trial.model.source,
                task=job.trial.model.task,
                resolution_px=8,
                params=params,
                **(counted(job, params) if "count" in script else {}),
            )
        )
    )
    print("output of a library", flush=True)
    misbehave(script, out.fileno())
    texts = [word.removeprefix("text:") for word in script if word.startswith("text:")]
    text = (texts or ["it does not compile"])[0]
    for mode in job.modes:
        say(protocol.Stage(phase=Phase.COMPILE, mode=mode))
        if f"raise:{mode}" in script:
            say(
                protocol.Failed(
                    phase=Phase.COMPILE,
                    mode=mode,
                    kind="InvalidArgumentError",
                    text=text,
                )
            )
        elif f"segv:{mode}" in script:
            os.kill(os.getpid(), signal.SIGSEGV)
        elif f"exit:{mode}" in script:
            os._exit(3)
        elif f"hang:{mode}" in script:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        elif f"grandchild:{mode}" in script:
            child = subprocess.Popen(["sleep", "600"])
            print("grandchild", child.pid, flush=True)
            say(protocol.Flagged(flag=f"grandchild:{child.pid}"))
            os._exit(4)
        else:
            say(protocol.ModeReady(mode=mode, outcome=outcome()))
    alive = tuple(mode for mode in job.modes if f"raise:{mode}" not in script)
    say(protocol.Turn())
    sys.stdin.buffer.readline()
    say(protocol.Stage(phase=Phase.MEASURE))
    for step in script:
        if step.startswith("last:"):
            time.sleep(float(step.removeprefix("last:")))
    if "garbage" in script:
        out.write(b"\x00 not an event {\n")
    for first in (0, 4):
        if "slow-clock" in script:
            time.sleep(0.3)
        say(square(alive, first, 10 if "slow-clock" in script else 1))
        review = msgspec.json.decode(sys.stdin.buffer.readline(), type=protocol.Review)
        if f"die-at:{first}" in script:
            os.kill(os.getpid(), signal.SIGKILL)
        if f"wait-at:{first}" in script:
            time.sleep(600)
        print("review", dict(review.dirty), flush=True)
        if "progress" in script:
            say(progressed(first + 4))
            sys.stdin.buffer.readline()
    contaminated = "contaminated" in script
    say(protocol.Finished(contaminated=contaminated, sync={"works": True}, seconds={"build": 1.0}))
    if "linger" in script:
        time.sleep(600)


if __name__ == "__main__":
    main()
