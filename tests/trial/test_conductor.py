"""Conducting a replicate, with real worker processes that die in real ways."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conducting import EIGHT, Notes, QuietMachine, conduct, conduct_trial
from ended import alive, processes, wait_until
from factories import TRIAL
from fake_nvml import FakeGpu, FakeNvml
from paths import SUPPORT
from scripted import scripted, started_by

from xla_sweeps.errors import StoreError
from xla_sweeps.schema.measurement import Block, Flagged, Phase, Round, Status
from xla_sweeps.system.process import Stop, children
from xla_sweeps.trial import monitor, pacing, passes, rounds, workers
from xla_sweeps.trial.gpu import GpuWatch
from xla_sweeps.trial.workers import LOG_LIMIT_BYTES

WORKER = str(SUPPORT / "fake_worker.py")

nightly = partial(pytest.param, marks=pytest.mark.exhaustive)


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "TERM_GRACE_S", 0.5)  # some ignore SIGTERM


def test_a_log_that_cannot_be_written_is_named_and_leaves_no_process(tmp_path: Path) -> None:
    log, before = tmp_path / "child.log", set(children(os.getpid()))
    log.mkdir()
    with pytest.raises(StoreError, match=rf"its log {log}: Is a directory"):
        conduct(tmp_path)
    assert set(children(os.getpid())) <= before


def test_everything_that_a_worker_says_is_kept(tmp_path: Path) -> None:
    notes = Notes()
    result = conduct(tmp_path, notes=notes)
    assert result.finished
    assert result.status is Status.OK
    assert result.failure is None
    assert [round_.round for round_ in result.rounds] == list(range(8))
    assert set(result.modes) == {"graph", "xla"}
    for label, outcome in result.modes.items():
        blocks = [block for one in result.rounds for block in one.blocks if block.mode == label]
        assert len(outcome.latencies_s) == sum(len(block.single_ns) for block in blocks) > 0
    assert result.model is not None
    assert result.model.params == 7
    assert result.environment == {"tensorflow": "fake"}
    assert result.sync == {"works": True, "empty_s": 0.0}
    assert result.contamination == {"samples": 3}
    assert {"build", "prepare", "measure"} <= set(result.seconds)
    phases = list(dict.fromkeys(phase for phase, _, _ in notes.of("stage")))
    assert phases == [Phase.BUILD, Phase.COMPILE, Phase.VERIFY, Phase.MEASURE]
    assert [len(rounds) for rounds in notes.of("rounds")] == [4, 4]


def test_the_tracker_gets_what_the_gpu_reported_so_far(tmp_path: Path) -> None:
    notes = Notes()
    with FakeNvml(FakeGpu()).installed():
        result = conduct(tmp_path, machine=QuietMachine(gpu=GpuWatch("GPU-a")), notes=notes)
    assert [[span.rounds for span in spans] for spans in notes.of("gpu")] == [
        [(0, 3)],
        [(0, 3), (4, 7)],
    ]
    assert notes.of("gpu")[-1] == list(result.gpu)


def test_output_of_the_libraries_goes_to_the_log_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    conduct(tmp_path)
    assert "output of a library" in (tmp_path / "child.log").read_text()
    assert capfd.readouterr() == ("", "")


def test_a_contaminated_round_is_marked_and_measured_again(tmp_path: Path) -> None:
    notes = Notes()
    result = conduct(tmp_path, machine=QuietMachine(dirty={5: "steal 30 %"}), notes=notes)
    told = {round_.round: round_.dirty for rounds in notes.of("rounds") for round_ in rounds}
    assert {number: cause for number, cause in told.items() if cause} == {5: "steal 30 %"}
    assert {round_.round: round_.dirty for round_ in result.rounds if round_.dirty} == {
        5: "steal 30 %"
    }
    assert result.rounds[8].order == result.rounds[5].order


@pytest.mark.parametrize(("how", "kind"), [("segv", "SIGSEGV"), nightly("exit", "exit code 3")])
def test_a_death_while_preparing_a_mode_is_that_modes_failure_and_the_others_are_measured(
    tmp_path: Path, how: str, kind: str
) -> None:
    machine = QuietMachine()
    result = conduct(tmp_path, f"{how}:xla", machine=machine)
    assert result.finished
    assert len(machine.pids) == 2, "it is started again without that mode"
    failure = result.modes["xla"].failure
    assert failure is not None
    assert (result.modes["xla"].status, failure.kind) == (Status.CRASHED, kind)
    assert failure.phase is Phase.COMPILE
    assert result.modes["graph"].status is Status.OK
    assert {block.mode for round_ in result.rounds for block in round_.blocks} == {"graph"}


def test_where_every_mode_kills_its_process_the_last_death_is_the_replicates(
    tmp_path: Path,
) -> None:
    result = conduct(tmp_path, "segv:xla", "exit:graph")
    assert not result.finished
    assert result.status is Status.CRASHED
    assert {label: outcome.status for label, outcome in result.modes.items()} == dict.fromkeys(
        ("graph", "xla"), Status.CRASHED
    )


@pytest.mark.parametrize("rounds", [0, 6, 8])
def test_a_death_while_measuring_keeps_the_complete_rounds(
    rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last is in the calls after all rounds, which show if a mode was still warming up."""
    monkeypatch.setattr(pacing, "WARM_CALLS", 10_000)
    notes = Notes()
    result = conduct(tmp_path, f"die-at:{rounds}", notes=notes)
    assert not result.finished
    assert result.status is Status.KILLED
    assert [round_.round for round_ in result.rounds] == list(range(rounds))
    assert sum(len(told) for told in notes.of("rounds")) == rounds


def test_a_hang_that_ignores_sigterm_is_killed_at_its_stages_deadline(tmp_path: Path) -> None:
    result = conduct(tmp_path, "hang:xla", compile_s=1.5)
    assert result.finished
    outcome = result.modes["xla"]
    assert outcome.status is Status.TIMEOUT
    assert outcome.failure is not None
    assert outcome.failure.message == "stage 'compile' timed out after 1.5 s"


def test_a_process_that_the_kernel_cannot_end_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("EXIT_GRACE_S", "TERM_GRACE_S", "KILL_GRACE_S"):
        monkeypatch.setattr(workers, name, 0.1)
    monkeypatch.setattr(workers, "signal_group", lambda *_: None)
    with subprocess.Popen(["sleep", "600"]) as process:
        assert not workers.end_group(process)
        assert process.poll() is None
        process.kill()


def test_grandchildren_do_not_outlive_their_trial(tmp_path: Path) -> None:
    result = conduct(tmp_path, "grandchild:graph")
    (pid,) = [int(flagged.mode) for flagged in result.flags if flagged.flag == "grandchild"]
    assert wait_until(lambda: not alive(pid))


@pytest.fixture
def closing_stop() -> Iterator[Stop]:
    with Stop() as stop:
        yield stop


def test_a_request_to_stop_keeps_the_rounds_measured_so_far(
    tmp_path: Path, closing_stop: Stop
) -> None:
    stop = closing_stop

    def stop_soon(kind: str, value: Any) -> None:
        if kind == "rounds":
            threading.Timer(0.5, stop.request).start()

    result = conduct(tmp_path, "wait-at:6", stop=stop, notes=Notes(stop_soon))
    assert result.status is Status.INTERRUPTED
    assert not result.finished
    assert [round_.round for round_ in result.rounds] == list(range(6))
    assert {outcome.status for outcome in result.modes.values()} == {Status.OK}


def test_a_stop_before_the_start_starts_nothing(tmp_path: Path, closing_stop: Stop) -> None:
    closing_stop.request()
    machine = QuietMachine()
    result = conduct(tmp_path, stop=closing_stop, machine=machine)
    assert result.status is Status.INTERRUPTED
    assert not machine.pids


def test_a_process_past_its_memory_limit_is_oom_host_and_not_an_interrupt(
    tmp_path: Path, closing_stop: Stop
) -> None:
    stop, machine = closing_stop, QuietMachine()

    def exceed(kind: str, value: Any) -> None:
        if kind == "stage" and value[1] == "xla":
            machine.exceeded[-1]()

    result = conduct(tmp_path, "hang:xla", stop=stop, machine=machine, notes=Notes(exceed))
    assert result.finished, "the process that is started again is not stopped by it"
    outcome = result.modes["xla"]
    assert outcome.status is Status.OOM_HOST
    assert not stop.requested
    assert outcome.failure is not None
    assert outcome.failure.message.endswith("limit of 8.0 GiB")


def test_bytes_that_are_not_a_message_are_ignored(tmp_path: Path) -> None:
    assert conduct(tmp_path, "garbage").finished


@pytest.mark.parametrize("script", ["setsid", *map(nightly, ("fork", "linger", "chatter"))])
def test_what_the_model_started_neither_holds_up_nor_outlives_the_replicate(
    script: str, tmp_path: Path
) -> None:
    before = set(children(os.getpid()))
    result = conduct(tmp_path, script)
    assert result.finished
    assert result.status is Status.OK
    assert set(children(os.getpid())) == before
    assert not processes(WORKER, str(tmp_path))


@pytest.mark.parametrize(
    ("script", "status", "says"),
    [
        (("flood", "hang:graph"), Status.RUN_ERROR, "wrote more into the channel of our events"),
        (("close",), Status.RUN_ERROR, "closed a file descriptor that it did not open"),
        nightly(("chatter", "hang:graph"), Status.TIMEOUT, "stage 'compile' timed out after 1 s"),
    ],
)
def test_a_process_that_misuses_its_channel_is_ended_with_the_right_words(
    script: Sequence[str], status: Status, says: str, tmp_path: Path
) -> None:
    result = conduct(
        tmp_path, *script, modes=("graph",), compile_s=1 if "chatter" in script else 30
    )
    assert result.status is status
    assert result.failure is not None
    assert says in result.failure.message


def test_a_process_that_never_reads_a_long_job_is_ended_at_the_deadline(tmp_path: Path) -> None:
    long = replace(TRIAL.model, variant="v" * 10**6)
    trial = replace(TRIAL, timeouts=replace(TRIAL.timeouts, build_s=0.2), model=long)
    result = conduct_trial(trial, started_by("sh", "-c", "exec sleep 600"), tmp_path)
    assert result.status is Status.TIMEOUT


def test_a_log_of_any_length_is_read_only_after_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    monkeypatch.setattr(workers, "LOG_LIMIT_BYTES", 4096)
    monkeypatch.setattr(workers, "drop_lines", lambda log, lines: sizes.append(log.stat().st_size))
    conduct_trial(TRIAL, started_by("sh", "-c", "yes | head -n 100000"), tmp_path)
    assert 0 < sizes[0] <= 4096


def test_a_log_keeps_its_beginning_and_its_last_words_within_a_limit(tmp_path: Path) -> None:
    conduct(tmp_path, "loud", "segv:graph", modes=("graph",))
    content = (tmp_path / "child.log").read_bytes()
    assert len(content) <= LOG_LIMIT_BYTES
    assert content.startswith(b"output of a library")
    assert b"bytes cut" in content
    assert b"\nlast words\n" in content[-4096:], "before the stack of its death"


def test_what_xlas_autotuner_writes_of_its_own_timer_is_not_in_the_log(tmp_path: Path) -> None:
    conduct(tmp_path, "autotune", "segv:graph", modes=("graph",))
    content = (tmp_path / "child.log").read_bytes()
    assert content.startswith(b"output of a library")
    assert b"Delay kernel" not in content
    assert b"SIGSEGV" in content or b"Segmentation fault" in content


def test_a_gpu_too_small_for_all_workers_ends_one_backend_and_says_what_to_do(
    tmp_path: Path,
) -> None:
    text = "text:RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes."
    script = ("raise:jax_xla", text)
    result = conduct(tmp_path, *script, modes=("graph", "jax_xla"), device="gpu:0")
    assert result.finished
    assert result.modes["graph"].status is Status.OK
    outcome = result.modes["jax_xla"]
    assert outcome.status is Status.OOM_GPU
    assert outcome.failure is not None
    assert "2 processes share this GPU" in outcome.failure.hint


def test_rounds_that_count_again_follow_the_calls_that_end_a_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else rounds that noise had repeated held the rest of a slow start."""
    drifted = iter([True])
    monkeypatch.setattr(rounds, "drifts", lambda *given: next(drifted, False))
    effort = replace(EIGHT, latency_calls=0)
    trial = replace(TRIAL, effort=effort, modes=("graph", "xla"), device="cpu")
    result = conduct_trial(trial, scripted(), tmp_path)
    assert result.finished
    once = effort.rounds_min * result.rounds[0].blocks[0].calls
    assert once < pacing.WARM_CALLS
    numbers = {block.mode: block.elapsed_ns % 1000 for block in result.rounds[0].blocks}
    more = effort.rounds_min + 1 + passes.LATER_BLOCKS  # the script's blocks have numbers
    assert numbers == {"graph": more + 1, "xla": more + 1}


def test_all_calls_of_rounds_that_count_again_are_calls_of_the_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = replace(TRIAL, effort=replace(EIGHT, latency_calls=8), modes=("graph", "xla"))
    once = conduct_trial(trial, scripted(), tmp_path)
    (singles,) = {len(block.single_ns) for round_ in once.rounds for block in round_.blocks}
    drifted = iter([True])
    monkeypatch.setattr(rounds, "drifts", lambda *given: next(drifted, False))
    again = conduct_trial(trial, scripted(), tmp_path)
    for mode in trial.modes:
        first, taken = once.modes[mode], again.modes[mode]
        calls = taken.warmup_calls - 2 * first.warmup_calls
        assert calls >= EIGHT.rounds_min * (1 + singles) > EIGHT.rounds_min
        assert sum(taken.warmup_block_calls) - 2 * sum(first.warmup_block_calls) == calls
        assert len(taken.warmup_block_ns) == len(taken.warmup_block_calls)


@pytest.mark.parametrize("other", ["xla", "jax_xla"])
def test_a_worker_that_is_lost_while_it_warms_up_again_loses_no_round(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rounds are no calls of the warm-up then, of a mode in another worker either."""
    drifted = iter([True])
    monkeypatch.setattr(rounds, "drifts", lambda *given: next(drifted, False))
    result = conduct(tmp_path, "die-warming-again:graph", modes=("graph", other))
    assert len(result.rounds) == EIGHT.rounds_min
    assert {outcome.warmup_calls for outcome in result.modes.values()} == {0}
    if other == "xla":  # in the same worker
        assert (result.finished, result.status) == (False, Status.KILLED)
    else:
        assert result.finished
        statuses = {label: outcome.status for label, outcome in result.modes.items()}
        assert statuses == {"graph": Status.KILLED, "jax_xla": Status.OK}


def test_workers_of_several_backends_load_them_side_by_side(tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    result = conduct(tmp_path, f"meet:{meeting}", modes=("graph", "jax_xla"))
    assert result.finished
    assert len(list(meeting.iterdir())) == 2
    assert result.seconds["import"] == 2.5
    lost = conduct(tmp_path, "die-loading", modes=("graph", "jax_xla"))
    assert lost.status is Status.KILLED
    alone = conduct(tmp_path, "die-loading", modes=("graph",))
    assert alone.finished, "a single worker loads it in its first request"


def test_a_clock_that_runs_slower_than_the_machines_is_flagged_and_not_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_sweeps.trial.workers.CLOCK_SLACK_S", 0.1)
    result = conduct(tmp_path, "slow-clock")
    assert result.contaminated
    assert Flagged("clock_differs") in result.flags
    assert result.rounds
    assert all(round_.dirty for round_ in result.rounds)


PAIRS = ("graph", "xla", "graph_2", "xla_2")


def test_copies_that_are_apart_take_turns_from_processes_of_their_own(tmp_path: Path) -> None:
    machine = QuietMachine()
    result = conduct(tmp_path, modes=PAIRS, copies="apart", machine=machine)
    assert result.finished
    assert len(set(machine.pids)) == 2
    assert [set(round_.order) for round_ in result.rounds] == [set(PAIRS)] * 8
    for round_ in result.rounds:
        assert all(block.idle_cpu_ns is not None for block in round_.blocks)
    followers = {
        pair
        for round_ in result.rounds
        for pair in zip(round_.order, round_.order[1:], strict=False)
    }
    assert {("graph", "graph_2"), ("graph_2", "graph")} <= followers


@pytest.mark.parametrize("killed", [nightly(0), 1])
def test_a_worker_that_is_killed_ends_its_own_modes_and_the_others_go_on(
    killed: int, tmp_path: Path
) -> None:
    machine = QuietMachine()

    def kill(kind: str, value: Any) -> None:
        if kind == "rounds":
            with contextlib.suppress(ProcessLookupError):
                os.kill(machine.pids[killed], signal.SIGKILL)

    notes = Notes(kill)
    result = conduct(tmp_path, modes=PAIRS, copies="apart", machine=machine, notes=notes)
    lost = {"graph", "xla"} if killed == 0 else {"graph_2", "xla_2"}
    kept = set(PAIRS) - lost
    assert result.finished
    assert {label for label in PAIRS if result.modes[label].status is Status.KILLED} == lost
    assert {label for label in PAIRS if result.modes[label].status is Status.OK} == kept
    assert [set(round_.order) for round_ in result.rounds[:4]] == [set(PAIRS)] * 4
    assert all(set(round_.order) == kept for round_ in result.rounds[4:])
    assert len(result.rounds) >= 8
    assert all(result.modes[label].latencies_s for label in kept)
    assert any("continuing with" in warning for warning in notes.of("warn"))


def test_a_mode_that_kills_one_worker_is_left_out_there_alone(tmp_path: Path) -> None:
    machine = QuietMachine()
    result = conduct(tmp_path, "segv:xla_2", modes=PAIRS, copies="apart", machine=machine)
    assert result.finished
    assert len(machine.pids) == 3
    assert result.modes["xla_2"].status is Status.CRASHED
    assert result.rounds
    assert [set(round_.order) for round_ in result.rounds] == [{"graph", "xla", "graph_2"}] * len(
        result.rounds
    )


def test_an_idle_worker_that_computes_contaminates_the_rounds(tmp_path: Path) -> None:
    result = conduct(tmp_path, "spin", modes=("graph", "graph_2"), copies="apart")
    assert result.contaminated
    assert result.rounds
    assert all("idle processes used" in round_.dirty for round_ in result.rounds)


def test_processor_time_of_an_idle_process_is_told_to_the_nanosecond() -> None:
    before_ns = monitor.cpu_ns([os.getpid()])
    began_ns = time.process_time_ns()
    sum(range(10**6))
    used_ns, since_ns = monitor.cpu_ns([os.getpid()]) - before_ns, time.process_time_ns() - began_ns
    assert 0 < since_ns < used_ns + 1_000_000 < since_ns + 50_000_000
    block = Block(mode="graph", calls=1, elapsed_ns=10**8, enqueue_ns=1, idle_cpu_ns=2 * 10**7)
    measured = Round(round=0, order=("graph",), blocks=(block,))
    assert monitor.disturbance_by_idle(measured) == "the trial's idle processes used 0.2 cores"
    quiet = replace(measured, blocks=(replace(block, idle_cpu_ns=10**6),))
    assert monitor.disturbance_by_idle(quiet) == ""
