"""Show how far a sweep is, how its jobs ended, and how long the rest will take."""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.store.store import try_trial
from xla_sweeps.sweeps.backlog import Backlog
from xla_sweeps.sweeps.compose import Task
from xla_sweeps.sweeps.launchers import Launcher, Screen
from xla_sweeps.sweeps.launchers.job import Ended
from xla_sweeps.sweeps.launchers.slots import place_of
from xla_sweeps.sweeps.outcomes import Judge, Run
from xla_sweeps.sweeps.plan import INCONCLUSIVE, attempts, final_outcome
from xla_sweeps.trial.neighbours import cause_of

DRAW_S = 1.0

CLEAR = "contaminated but clear"
"""Outcome of a trial that other load did not keep from an answer: not measured again."""

_UNCERTAINTY = 0.1


class Progress:
    """Keep the screen up to date; the arguments are the driver's."""

    def __init__(
        self,
        screen: Screen,
        launcher: Launcher,
        backlog: Backlog,
        judge: Judge,
        costs: Mapping[str, float],
    ) -> None:
        self._screen, self._launcher, self._backlog = screen, launcher, backlog
        self._judge, self._costs = judge, costs
        self._took: deque[float] = deque(maxlen=50)  # the latest trials
        self._slots: dict[int, str] = {}
        self._most = 0
        self._drawn = 0.0
        self._ended, self._reported = 0, -1
        self._measured, self._contaminated, self._cause = 0, 0, ""

    def show(self, running: Mapping[Future[Ended], Run]) -> None:
        """Show jobs that began to run, and once a second how far the sweep is."""
        for future, run in running.items():
            slot, shown = self._launcher.slot_of(future), self._slots.get(id(run))
            if slot and slot != shown:
                if shown is None and not self._launcher.targets:
                    run.started = time.monotonic()  # until now it was queued
                self._slots[id(run)] = slot
                self._screen.running(slot, self._what(run.task), run.job.log)
        self._most = max(self._most, len(self._slots))
        if time.monotonic() > self._drawn + DRAW_S:
            self._drawn = time.monotonic()
            self.report(running)

    def show_end(self, run: Run, word: str, new: Sequence[Record]) -> None:
        """Show how a run ended, as it was judged."""
        self._slots.pop(id(run), None)
        self._ended += 1
        if new:
            if not self._backlog.is_anchor(run.task):
                self._took.append(time.monotonic() - run.started)
            self._measured += 1
            if new[-1].status is Status.CONTAMINATED:
                self._contaminated += 1
                self._cause = cause_of(new[-1])
        what, detail = self._what(run.task), _detail_of(run.ended, new)
        self._screen.show_end(run.ended.slot, what, word, detail, figure_of(new))

    def report(self, running: Mapping[Future[Ended], Run]) -> None:
        """Show how far the sweep is, where that has changed: counting a large one takes a while."""
        if self._reported == self._ended:
            return
        self._reported = self._ended
        tasks = self._backlog.tasks
        done = sum(not task.wanted or task.key in self._judge.gave_up for task in tasks)
        counts, left_s = self.counts(), self.left_s(running)
        busy = self._busy(counts)
        if begun := sum(bool(task.wanted and Status.OK in task.outcomes) for task in tasks):
            counts["begun"] = begun
        self._screen.progress(done, self._backlog.total, counts, left_s=left_s, busy=busy)

    def _busy(self, counts: Mapping[str, int]) -> str:
        """Number of measured trials that are contaminated, by what, and what follows."""
        contaminated = counts.get(str(Status.CONTAMINATED), 0)
        if not contaminated:
            return ""
        measured = sum(counts.values()) - counts.get("missing", 0)
        text = f"{contaminated} of {measured} contaminated"
        text += f": {self._cause}" if self._cause else ""
        if any(Status.CONTAMINATED in task.accepted for task in self._backlog.tasks[:1]):
            return text
        return f"{text}; open ones are measured once more; --accept-contaminated keeps them"

    def counts(self) -> dict[str, int]:
        """Number of trials by final status, or `refused`, `died`, `infra` or `missing`."""
        words: Counter[str] = Counter()
        for task in self._backlog.tasks:
            outcome = final_outcome(task.outcomes)
            given_up, _ = self._judge.gave_up.get(task.key, ("", ""))
            if outcome is not None and (not task.wanted or given_up or outcome in INCONCLUSIVE):
                clear = task.clear and outcome is Status.CONTAMINATED
                words[CLEAR if clear else str(outcome)] += 1
            else:
                words[given_up or "missing"] += 1
        return dict(words)

    def left_s(self, running: Mapping[Future[Ended], Run]) -> tuple[float, float] | None:
        """Seconds that the rest will take, as a range; None where nothing is known."""
        tasks = [*self._backlog.waiting, *(run.task for run in running.values())]
        share = self._contaminated / max(1, self._measured)
        waiting = [(task.model, _expected_replicates(task, share)) for task in tasks]
        if not self._launcher.targets:
            return time_left(waiting, past=self._costs, took=self._took, slots=self._most)
        slots = self._launcher.slots()  # where trials prepare ahead, each also waits for the others
        longer = len(slots) / len(set(map(place_of, slots)))
        past = {model: cost_s * longer for model, cost_s in self._costs.items()}
        return time_left(waiting, past=past, took=self._took, slots=len(slots))

    def _what(self, task: Task) -> str:
        return "anchor" if self._backlog.is_anchor(task) else " ".join(task.words)


def time_left(
    waiting: Sequence[tuple[str, float]],
    *,
    past: Mapping[str, float],
    took: Collection[float] = (),
    slots: int,
) -> tuple[float, float] | None:
    """Seconds that the rest of a sweep will take, as a range; None where nothing is known.

    Args:
        waiting: model and expected replicates of each trial that is not done.
        past: seconds that a replicate of a model took before, by model.
        took: seconds that the replicates of this run took.
        slots: how many run at once.
    """
    took = took or [cost for cost in past.values() if cost > 0]
    if not took:
        return None
    typical = statistics.median(took)
    total = sum(past.get(model, typical) * max(1, wanted) for model, wanted in waiting)
    quartiles = statistics.quantiles(took, n=4) if len(took) >= 4 else [0.0, 0.0, 0.0]
    error = (quartiles[2] - quartiles[0]) / 2 * len(waiting) ** 0.5 + _UNCERTAINTY * total
    return max(0.0, total - error) / max(1, slots), (total + error) / max(1, slots)


def _expected_replicates(task: Task, contaminated: float) -> float:
    """Expected number of further replicates, of which a share will be contaminated."""
    left = 0
    if Status.CONTAMINATED not in task.counted:
        left = attempts(Status.CONTAMINATED, replicates=task.replicates)
        left -= task.outcomes.count(Status.CONTAMINATED)
    return max(1, task.wanted) + sum(contaminated**again for again in range(1, left))


def figure_of(new: Sequence[Record]) -> str:
    """A job's headline speedup with its interval, or its throughput if there is no other mode."""
    if not new:
        return ""
    summary, _ = try_trial(Path(new[-1].trial_id), lambda: summarize(new))
    if summary is None:
        return ""
    speedup = next((row.speedup for row in summary.comparisons if row.headline), None)
    if speedup is not None and speedup.verdict is not Verdict.NONE:
        if speedup.value is None:
            return ""
        has_interval = speedup.low is not None and speedup.high is not None
        interval = f" ({speedup.low:.2f}–{speedup.high:.2f})" if has_interval else ""
        return f"{speedup.value:.2f}×{interval}"
    throughput = summary.modes[0].columns.throughput_samples_per_s if summary.modes else None
    return "" if throughput is None else f"{throughput:.4g}/s"


def _detail_of(ended: Ended, new: Sequence[Record]) -> str:
    """One line on what went wrong, from the job's last record or else from how it ended; or ""."""
    if not new:
        return ended.detail
    failures = [outcome.failure for outcome in new[-1].modes.values() if outcome.failure]
    failure = new[-1].failure or (failures[0] if failures else None)
    return failure.message if failure else ""
