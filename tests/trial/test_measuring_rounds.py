"""Rounds on a fake device with a fake clock: when measuring stops, and what is left out."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest
from timed_devices import EFFORT, Clock, Device, level, made, measured

from xla_sweeps.analysis.stats import MIN_PAIRS
from xla_sweeps.schema.measurement import Round
from xla_sweeps.schema.trial import Effort
from xla_sweeps.trial import rounds


def marked(rounds: Sequence[Round], dirty: Collection[int]) -> Sequence[Round]:
    """The rounds, of which these numbers are contaminated."""
    return [replace(round_, dirty="others" if round_.round in dirty else "") for round_ in rounds]


def noisy(graph_s: float) -> tuple[Clock, dict[str, Device]]:
    """Two modes whose intervals stay too wide."""
    clock, noise = Clock(), [1.0, 1.3, 0.8, 1.1, 0.7, 1.2, 0.9]
    graph = Device(clock, work_s=graph_s, noise=noise)
    return clock, {"graph": graph, "xla": Device(clock, work_s=0.1, noise=noise[::-1])}


def test_measuring_stops_at_the_first_look_where_the_interval_is_narrow_enough() -> None:
    clock, devices = made(graph=0.2, xla=0.1)
    result = measured(devices, clock)
    assert result.converged
    assert len(result.rounds) == 8  # whole designs of four: the first look at or after six rounds
    ratios = rounds.log_ratios(result.rounds, "graph", "xla")
    blocks_s = 0.401, 0.201  # two calls and the first one's enqueue
    assert ratios == pytest.approx([math.log(blocks_s[0] / blocks_s[1])] * 8)


def test_measuring_never_stops_on_significance() -> None:
    clock, devices = noisy(1.0)
    result = measured(devices, clock)
    assert not result.converged
    assert len(result.rounds) == 24
    assert min(rounds.log_ratios(result.rounds, "graph", "xla")) > 1.5


UNTIMED = ["prepare", "step", "synchronize"]


@pytest.mark.parametrize("calls", [1, 2])
def test_every_block_follows_an_untimed_call_of_its_own_mode(calls: int) -> None:
    clock, devices = made(graph=0.1, xla=0.1)
    measured(devices, clock, calls=calls)
    unit, log = [*UNTIMED, *["step"] * calls, "synchronize"], devices["graph"].log
    assert log == unit * (len(log) // len(unit))


@pytest.mark.parametrize(("name", "limit_s"), [("quick", 0.1), ("standard", 10), ("publish", 10)])
@pytest.mark.parametrize("slow", ["eager", "graph", "xla"])
def test_all_modes_are_settled_or_none_as_the_slowest_of_the_headline_says(
    name: str, limit_s: float, slow: str
) -> None:
    for factor in (0.9, 1.1):
        clock, devices = made(eager=0.01, graph=0.01, xla=0.01)
        devices[slow].work_s = factor * limit_s
        measured(devices, clock, effort=replace(level(name), mode_cap_s=1e6), calls=1)
        settled = {mode: device.log[:4] == [*UNTIMED, "step"] for mode, device in devices.items()}
        assert set(settled.values()) == {slow == "eager" or factor < 1}


def test_measuring_ends_early_where_the_last_round_would_not_reach_the_target() -> None:
    for hopeless_ends, expected in ((True, 8), (False, 24)):
        clock, devices = noisy(1.0)
        result = measured(devices, clock, effort=replace(EFFORT, hopeless_ends=hopeless_ends))
        assert not result.converged
        assert len(result.rounds) == expected


def test_a_slow_mode_outside_the_headline_is_dropped_and_the_others_continue() -> None:
    clock = Clock()
    noise = [1.0, 1.2, 0.9, 1.1, 0.8]
    devices = {
        "eager": Device(clock, work_s=3.0),
        "graph": Device(clock, work_s=0.1, noise=noise),
        "xla": Device(clock, work_s=0.1, noise=noise[::-1]),
    }
    result = measured(devices, clock, effort=replace(EFFORT, mode_cap_s=60))
    assert sum("eager" in round_.order for round_ in result.rounds) == 6
    both = [round_ for round_ in result.rounds if {"graph", "xla"} <= set(round_.order)]
    assert len(both) >= EFFORT.rounds_max


@pytest.mark.parametrize(("name", "with_eager"), [("quick", 6), ("standard", 24)])
def test_eager_leaves_a_quick_replicate_after_the_fewest_rounds_that_have_an_interval(
    name: str, with_eager: int
) -> None:
    clock, devices = made(eager=0.1, graph=0.02, xla=0.01)
    result = measured(devices, clock, effort=level(name))
    assert result.converged
    sizes = [len(round_.order) for round_ in result.rounds]
    assert sizes == [3] * with_eager + [2] * (len(sizes) - with_eager)
    assert len(sizes) >= level(name).rounds_min
    assert rounds.headline_half_width(result.rounds, [("eager", "xla")]) == pytest.approx(0)


@pytest.mark.parametrize(("dirty", "leaves"), [({2}, True), ({0, 1, 2, 3, 4, 5}, False)])
def test_eager_stays_until_six_of_its_rounds_are_clean(dirty: set[int], leaves: bool) -> None:
    clock, devices = made(eager=0.02, graph=0.02, xla=0.02)

    def disturbed(rounds: Sequence[Round]) -> Sequence[Round]:
        return marked(rounds, dirty)

    result = measured(devices, clock, effort=level("quick"), review=disturbed)
    assert ("eager" not in result.rounds[-1].order) == leaves
    clean = [round_ for round_ in result.rounds if not round_.dirty and "eager" in round_.order]
    assert len(clean) == 6


@pytest.mark.parametrize(("cap_s", "rounds"), [(60, 8), (180, 8), (300, 12)])
def test_a_headline_mode_over_its_cap_ends_measuring_at_a_design_that_has_an_interval(
    cap_s: float, rounds: int
) -> None:
    clock, devices = noisy(10.0)
    result = measured(devices, clock, effort=replace(EFFORT, mode_cap_s=cap_s), calls=1)
    assert not result.converged
    assert len(result.rounds) == rounds >= MIN_PAIRS


def test_contaminated_rounds_are_repeated_completely_and_excluded_from_the_ratios() -> None:
    clock, devices = made(graph=0.2, xla=0.1)
    asked: list[int] = []

    def disturbed_once(rounds: Sequence[Round]) -> Sequence[Round]:
        asked.extend(round_.round for round_ in rounds)
        return marked(rounds, {1})

    result = measured(devices, clock, review=disturbed_once)
    assert asked == list(range(len(result.rounds)))
    assert [round_.round for round_ in result.rounds if round_.dirty] == [1]
    assert not rounds.is_contaminated(result.rounds)
    assert result.rounds[4].order == result.rounds[1].order
    assert len(rounds.log_ratios(result.rounds, "graph", "xla")) == len(result.rounds) - 1


def busy(rounds: Sequence[Round]) -> Sequence[Round]:
    """A monitor that sees others on the machine all the time."""
    return marked(rounds, {round_.round for round_ in rounds})


@pytest.mark.parametrize(
    ("name", "labels", "most"),
    [
        ("quick", ["graph", "xla"], 12),
        ("quick", ["eager", "graph", "xla"], 12),
        ("quick", ["graph"], 12),
        ("standard", ["eager", "graph", "xla"], 24),
        ("publish", ["graph", "xla"], 24),
    ],
)
def test_a_machine_that_is_never_quiet_ends_measuring_at_the_first_look(
    name: str, labels: list[str], most: int
) -> None:
    clock = Clock()
    effort = level(name)
    devices = {label: Device(clock, work_s=0.02, noise=[1.0, 1.4, 0.7]) for label in labels}
    result = measured(devices, clock, effort=effort, review=busy)
    assert rounds.is_contaminated(result.rounds)
    assert effort.rounds_min <= len(result.rounds) <= most
    if len(labels) > 1:
        assert len(rounds.log_ratios(result.rounds, "graph", "xla")) >= MIN_PAIRS


def test_a_machine_that_turns_busy_later_ends_measuring_once_a_fifth_is_contaminated() -> None:
    clock, devices = noisy(1.0)

    def turns_busy(rounds: Sequence[Round]) -> Sequence[Round]:
        return marked(rounds, {round_.round for round_ in rounds if round_.round >= 12})

    result = measured(devices, clock, review=turns_busy)
    assert rounds.is_contaminated(result.rounds)
    assert len(result.rounds) == 16


@pytest.mark.parametrize("contaminated_every", [0, 9])
def test_the_time_left_is_never_above_what_the_limits_leave_and_holds_the_truth(
    contaminated_every: int,
) -> None:
    clock, devices = noisy(1.0)
    devices = {"eager": Device(clock, work_s=0.6), **devices}
    effort = replace(EFFORT, mode_cap_s=60, rounds_max=60)
    seen: list[tuple[int, rounds.Progress]] = []
    measured(
        devices,
        clock,
        effort=effort,
        review=lambda rounds: marked(
            rounds,
            {
                round_.round
                for round_ in rounds
                if contaminated_every and round_.round % contaminated_every == 4
            },
        ),
        on_design=lambda progress: seen.append((clock.now_ns, progress)),
    )
    end_ns, last = seen[-1]
    assert last.remaining_s == (0.0, 0.0)
    for at_ns, progress in seen[:-1]:
        soonest, latest = progress.remaining_s
        assert 0 < soonest <= latest <= len(devices) * effort.mode_cap_s - at_ns / 1e9
        assert soonest * 0.8 <= (end_ns - at_ns) / 1e9 <= latest * 1.2
        assert progress.measured >= progress.rounds


def test_on_a_busy_machine_the_time_left_is_that_to_the_first_look() -> None:
    clock, devices = made(graph=0.2, xla=0.1)
    seen: list[rounds.Progress] = []
    effort = replace(EFFORT, rounds_min=20, rounds_max=60)
    measured(devices, clock, effort=effort, review=busy, on_design=seen.append)
    assert [(progress.measured, progress.rounds) for progress in seen] == [
        (count, 0) for count in (4, 8, 12, 16, 20)
    ]
    soonest = [progress.remaining_s[0] for progress in seen]
    assert soonest == pytest.approx([14.5, 10.8, 7.2, 3.6, 0.0], abs=0.1)


@pytest.mark.parametrize("dies_at", [0, 1, 5, 6])
def test_a_worker_that_is_lost_costs_its_own_modes_and_no_complete_round(dies_at: int) -> None:
    clock, devices = made(graph=0.1, xla=0.1, graph_2=0.1, xla_2=0.1)
    reviewed: list[int] = []

    def review(rounds: Sequence[Round]) -> Sequence[Round]:
        reviewed.extend(round_.round for round_ in rounds)
        return rounds

    lost = ("graph_2", "xla_2")
    result = measured(devices, clock, review=review, dies=("graph_2", dies_at), lost=lost)
    assert [loss.labels for loss in result.lost] == [{"graph_2", "xla_2"}]
    sizes = [len(round_.order) for round_ in result.rounds]
    assert sizes == [4] * dies_at + [2] * (len(sizes) - dies_at)
    assert reviewed == list(range(len(result.rounds)))
    assert result.converged
    assert len(rounds.log_ratios(result.rounds, "graph", "xla")) >= EFFORT.rounds_min


def test_when_the_last_worker_is_lost_the_complete_rounds_are_kept() -> None:
    clock, devices = made(graph=0.1, xla=0.1)
    seen: list[rounds.Progress] = []
    lost = ("xla", "graph")
    result = measured(devices, clock, on_design=seen.append, dies=("xla", 5), lost=lost)
    assert len(result.rounds) == 5
    assert not result.converged
    assert len(seen) == 1, "the second design of rounds was not completed"


def test_a_single_mode_is_measured_for_the_minimum_of_rounds() -> None:
    clock, devices = made(graph=0.1)
    result = measured(devices, clock)
    assert len(result.rounds) == EFFORT.rounds_min


def test_single_synced_calls_are_interleaved_in_the_rounds() -> None:
    clock, devices = made(graph=0.02, xla=0.01)
    singles = {"graph": 6, "xla": 3}
    for round_ in measured(devices, clock, singles=singles).rounds[:2]:
        for block in round_.blocks:
            alone_ns = 1_000_000 + round(devices[block.mode].work_s * 1e9)
            assert block.single_ns == (alone_ns,) * singles[block.mode]
            assert set(block.single_enqueue_ns) == {1_000_000}
            assert block.call_s == pytest.approx(devices[block.mode].work_s + 0.001 / 2)


def test_a_mode_has_no_more_single_calls_than_its_effort_asks_for() -> None:
    clock, devices = noisy(0.1)
    result = measured(devices, clock, singles={"graph": 3, "xla": 3})
    assert len(result.rounds) == 24
    counts = [len(round_.blocks[0].single_ns) for round_ in result.rounds]
    assert counts == [3] * 7 + [0] * 17  # EFFORT.latency_calls is 20


def test_a_contaminated_round_does_not_count_among_those_with_single_calls() -> None:
    clock, devices = noisy(0.1)
    result = measured(
        devices, clock, singles={"graph": 3, "xla": 3}, review=lambda rounds: marked(rounds, [2])
    )
    clean = [round_ for round_ in result.rounds if not round_.dirty]
    assert sum(len(round_.blocks[0].single_ns) for round_ in clean) >= EFFORT.latency_calls


def test_rounds_go_on_for_the_least_time_while_the_interval_is_too_wide() -> None:
    clock, devices = noisy(0.1)
    effort = replace(EFFORT, hopeless_ends=True)
    assert len(measured(devices, clock, effort=effort).rounds) < EFFORT.rounds_max
    result = measured(devices, clock, effort=effort, least_s=30.0)
    assert len(result.rounds) > EFFORT.rounds_max
    assert 30.0 <= result.timed_s < 40.0


class ThreeDesigns:
    """A criterion of somebody else's: so many designs, whatever they show."""

    def __init__(self, effort: Effort, least_s: float) -> None:
        self.designs, self.outlook = 0, rounds.Outlook()

    def add(self, measured: rounds.Interleaving) -> None:
        self.designs += 1
        ended, count = self.designs == 3, len(measured.rounds)
        self.outlook = rounds.Outlook(ended=ended, converged=True, rounds=count)


def test_another_criterion_is_one_class() -> None:
    clock, devices = made(graph=0.2, xla=0.1)
    result = measured(devices, clock, criterion=ThreeDesigns)
    assert len(result.rounds) == 3 * 4
    assert result.converged
