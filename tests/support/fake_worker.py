"""A measuring process without a framework: it follows a script of steps, and may die in every way.

Started as `python fake_worker.py SCRIPT... PARENT_PID EVENT_DESCRIPTOR`; steps are `raise:MODE`,
`segv:MODE`, `hang:MODE`, `die-at:ROUND`, ...
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import faults  # noqa: F401  (which it may be made to have)

from xla_sweeps.schema.measurement import Block, Flagged, ModeOutcome, Phase, Status
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.process import die_with_parent
from xla_sweeps.trial import protocol
from xla_sweeps.worker import server

CALL_S = 0.01


def outcome() -> ModeOutcome:
    return ModeOutcome(status=Status.OK, trace_s=0.1, first_call_s=0.5, compile_s=0.49)


def misbehave(script: list[str], channel: int) -> None:
    """Misbehave as a model's code may while it is built."""
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
    if "loud" in script:
        for _ in range(40):
            print("x" * (1 << 20), flush=True)
        print("last words", flush=True)


def spin() -> None:
    while True:
        sum(range(10_000))


class Scripted:
    """Answers as a script says."""

    def __init__(self, script: list[str], descriptor: int, channel: server.Channel) -> None:
        self.script, self.descriptor, self.channel = script, descriptor, channel
        self.measured: Counter[str] = Counter()
        self.adopts = False

    def answer(self, request: protocol.Request) -> protocol.Reply:
        match request:
            case protocol.Load():
                self.load()
                return protocol.Ready(seconds={"import": 2.5})
            case protocol.SetUp(job=job):
                self.adopts = job.adopts
                return self.set_up(job)
            case protocol.Prepare(mode=mode):
                return self.prepare(mode)
            case protocol.WarmUp(mode=mode):
                if self.passes_all_points:
                    self.channel.send(protocol.Stage(phase=Phase.WARMUP, mode=mode))
                if self.measured and f"die-warming-again:{mode}" in self.script:
                    os.kill(os.getpid(), signal.SIGKILL)
                return protocol.Warmed(outcome=outcome(), call_s=CALL_S, sync_s=0.0)
            case protocol.TimeBlock(mode=mode, calls=calls, singles=singles):
                return self.block(mode, calls, singles)
            case _:
                return protocol.Finished()

    @property
    def passes_all_points(self) -> bool:
        return any(name.startswith("XLA_SWEEPS_FP") for name in os.environ)

    def value_of(self, step: str, default: str) -> str:
        """The part after `step:` in the script."""
        words = [word for word in self.script if word.startswith(f"{step}:")]
        return words[0].partition(":")[2] if words else default

    def load(self) -> None:
        """Wait for the other worker of a script with `meet:FOLDER`, which must load meanwhile."""
        if "die-loading" in self.script:
            os.kill(os.getpid(), signal.SIGKILL)
        if folder := self.value_of("meet", ""):
            Path(folder, str(os.getpid())).touch()
            deadline = time.monotonic() + 60
            while len(list(Path(folder).iterdir())) < 2:
                assert time.monotonic() < deadline, "nobody else is there"
                time.sleep(0.01)

    def set_up(self, job: ReplicateJob) -> protocol.Ready:
        say = self.channel.send
        if "spin" in self.script:
            threading.Thread(target=spin, daemon=True).start()
        if self.passes_all_points:
            for phase in (Phase.IMPORT, Phase.TRACE, Phase.VERIFY):
                say(protocol.Stage(phase=phase))
        if self.adopts:
            say(protocol.Stage(phase=Phase.IMPORT))
        say(protocol.Stage(phase=Phase.BUILD))
        say(protocol.Loaded(environment={"tensorflow": "fake"}))
        spec = job.trial.model
        facts = ModelFacts(
            name=spec.name,
            family=spec.family,
            variant=spec.variant,
            source=spec.source,
            task=spec.task,
            resolution_px=8,
            params=7,
        )
        say(protocol.Built(model=facts))
        print("output of a library", flush=True)
        misbehave(self.script, self.descriptor)
        return protocol.Ready(sync={"works": True}, seconds={"build": 1.0})

    def prepare(self, mode: str) -> protocol.Reply:
        script = self.script
        if self.adopts:
            self.channel.send(protocol.Stage(phase=Phase.TRACE, mode=mode))
        self.channel.send(protocol.Stage(phase=Phase.COMPILE, mode=mode))
        if f"raise:{mode}" in script:
            return protocol.Failed(
                phase=Phase.COMPILE,
                kind="InvalidArgumentError",
                text=self.value_of("text", "it does not compile"),
            )
        if "autotune" in script:
            print(
                "E0000 cuda_timer.cc:86] Delay kernel timed out: measured time has sub-optimal "
                "accuracy. There may be a missing warmup execution\n" * 50,
                flush=True,
            )
        if f"segv:{mode}" in script:
            os.kill(os.getpid(), signal.SIGSEGV)
        elif f"exit:{mode}" in script:
            os._exit(3)
        elif f"hang:{mode}" in script:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        elif f"grandchild:{mode}" in script:
            child = subprocess.Popen(["sleep", "600"])
            print("grandchild", child.pid, flush=True)
            self.channel.send(protocol.Caveat(Flagged("grandchild", str(child.pid))))
            os._exit(4)
        self.channel.send(protocol.Stage(phase=Phase.VERIFY, mode=mode))
        if self.adopts and f"wrong-later:{mode}" in script:
            return protocol.ModeReady(outcome=replace(outcome(), status=Status.WRONG_RESULT))
        return protocol.ModeReady(outcome=outcome())

    def block(self, mode: str, calls: int, singles: int) -> protocol.Reply:
        if not self.measured:
            time.sleep(float(self.value_of("last", "0")))
            if "garbage" in self.script:
                os.write(self.descriptor, b"\x00 not a message {\n")
        self.end_if_asked(self.measured[mode])
        time.sleep(0.02 if "spin" in self.script else 0)
        self.measured[mode] += 1
        elapsed_ns = round(calls * CALL_S * 1e9) + self.measured[mode]
        block = Block(
            mode=mode,
            calls=calls,
            elapsed_ns=elapsed_ns,
            enqueue_ns=10_000,
            single_ns=(10**7,) * singles,
            single_enqueue_ns=(10**4,) * singles,
        )
        if "slow-clock" in self.script:
            time.sleep(0.05)
            return protocol.Timed(block=block, clock_ns=time.perf_counter_ns() // 10)
        return protocol.Timed(block=block, clock_ns=time.perf_counter_ns())

    def end_if_asked(self, rounds: int) -> None:
        """Die or hang after so many rounds, if the script says so."""
        if rounds >= float(self.value_of("die-at", "inf")):
            os.kill(os.getpid(), signal.SIGKILL)
        if rounds >= float(self.value_of("wait-at", "inf")):
            print("waits for ever", flush=True)
            time.sleep(600)


def main() -> None:
    *script, parent, descriptor = sys.argv[1:]
    die_with_parent(int(parent))
    server.serve(int(descriptor), lambda channel: Scripted(script, int(descriptor), channel).answer)
    if "linger" in script:
        time.sleep(600)


if __name__ == "__main__":
    main()
