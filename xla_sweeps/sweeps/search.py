"""Choose the trials of a sweep: a grid, random ones from a seed, or a search guided by results."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.overrides import tidy
from xla_sweeps.schema.record import Record
from xla_sweeps.store.rows import Runs
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.compose import Composer, Task
from xla_sweeps.sweeps.definition import Metric, Parameter, Sweep
from xla_sweeps.sweeps.plan import add_duplicates, assign_records
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.system.text import count_noun

Values = dict[str, Any]
"""The value of each key of one trial."""

_DRAWS_PER_TRIAL = 100


def expand(sweep: Sweep, *, seed: int = 0) -> Iterator[Values]:
    """The values of each trial, in order: all of a grid, or random ones without repetition.

    The same seed draws the same trials, so that a random sweep can be resumed.
    """
    if sweep.method == "random":
        return _random(sweep, random.Random(seed))
    axes = [
        [parameter.value(index) for index in range(min(parameter.count or 0, sweep.trials))]
        for parameter in sweep.parameters.values()
    ]
    combinations = itertools.islice(itertools.product(*axes), sweep.trials)
    return (dict(zip(sweep.parameters, values, strict=True)) for values in combinations)


def sample(parameter: Parameter, source: random.Random) -> Any:
    """One random value."""
    match parameter.distribution:
        case "constant" | "categorical":
            return source.choices(parameter.values, parameter.probabilities or None)[0]
        case "uniform":
            return source.uniform(parameter.low, parameter.high)
        case "int_uniform" | "q_uniform":
            return parameter.value(source.randrange(parameter.count or 1))
        case "log_uniform_values" | "q_log_uniform_values":
            drawn = math.exp(source.uniform(math.log(parameter.low), math.log(parameter.high)))
        case "normal" | "q_normal":
            drawn = source.gauss(parameter.mu, parameter.sigma)
        case _:
            exponent = source.gauss(parameter.mu, parameter.sigma)
            drawn = math.exp(min(exponent, 700))  # a larger one's power is no float
    if not parameter.distribution.startswith("q_"):
        return drawn
    stepped = round(drawn / parameter.q) * parameter.q
    if "uniform" in parameter.distribution:
        stepped = min(max(stepped, parameter.low), parameter.high)
    return tidy(stepped)


def example(sweep: Sweep, source: random.Random) -> Values:
    """The values of one trial that a search may propose."""
    return {key: sample(parameter, source) for key, parameter in sweep.parameters.items()}


def _random(sweep: Sweep, source: random.Random) -> Iterator[Values]:
    seen: set[str] = set()
    for _ in range(_DRAWS_PER_TRIAL * sweep.trials):
        values = example(sweep, source)
        if len(seen) == sweep.trials:
            return
        if repr(values) not in seen:
            seen.add(repr(values))
            yield values


class Search:
    """Propose trials by Optuna's TPE sampler, and report their results to it.

    A trial that has records is not measured again. With the same seed and results the sampler
    proposes the same trials, so that a sweep can be resumed.

    Attributes:
        total: the most trials that it proposes.
        tasks: the trials that it proposed, each once.

    Raises:
        ConfigError: Optuna is not installed, or lacks the distribution of a parameter.
    """

    def __init__(
        self,
        sweep: Sweep,
        composer: Composer,
        store: Store,
        *,
        seed: int,
        measured: Callable[[Sequence[Record]], Mapping[str, Any]],
        warn: Callable[[str], object],
    ) -> None:
        try:
            import optuna
        except ImportError:
            raise ConfigError(f"method bayes needs Optuna: {how_to_install('bayes')}") from None
        assert sweep.metric  # which a definition of method bayes has
        self._metric = sweep.metric
        self._composer, self._store, self._measured = composer, store, measured
        self._parameters = sweep.parameters
        self._space = {
            key: _distribution(optuna, key, one) for key, one in sweep.parameters.items()
        }
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._failed = optuna.trial.TrialState.FAIL
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._study = optuna.create_study(
                direction=sweep.metric.goal,
                sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),
            )
        self._asked: dict[str, list[Any]] = {}
        self.total = sweep.trials
        self._in_vain = 0
        """Draws since the last new trial, or the last result."""
        self._warn, self._refused = warn, dict[str, XlaSweepsError]()
        self.tasks: list[Task] = []

    @property
    def exhausted(self) -> bool:
        """True if it has proposed all its trials."""
        return len(self.tasks) >= self.total

    @property
    def pending_count(self) -> int:
        """Number of trials that it proposed and knows no result of."""
        return len(self._asked)

    def next(self) -> Task | None:
        """The next trial that was not proposed before; None if there is none yet, or none any more.

        Raises:
            XlaSweepsError: every combination is refused.
        """
        while not self.exhausted and self._in_vain < _DRAWS_PER_TRIAL:
            self._in_vain += 1
            if (task := self._draw()) is not None:
                self._in_vain = 0
                add_duplicates([task], whole=False)
                runs = Runs.of(self._records(task))
                assign_records([task], runs, software=self._composer.software, retry=())
                self.tasks.append(task)
                return task
        if not self.exhausted and not self._asked:
            self._end_early()
        return None

    def _draw(self) -> Task | None:
        """A trial of the sampler's choice; None where it is refused, or was proposed before."""
        trial = self._study.ask(self._space)
        values = {key: self._value(key, value) for key, value in trial.params.items()}
        try:
            task = self._composer.task(values)
        except XlaSweepsError as error:
            self._study.tell(trial, state=self._failed)
            if str(error) not in self._refused:
                self._refused[str(error)] = error
                self._warn(f"a combination is left out: {error}")
            return None
        if task.key in self._asked:  # its result is told to all of them
            self._asked[task.key].append(trial)
            return None
        self._asked[task.key] = [trial]
        earlier = next((one for one in self.tasks if one.key == task.key), None)
        if earlier is None:
            return task
        self._tell(earlier)
        return None

    def _end_early(self) -> None:
        if not self.tasks and self._refused:
            raise next(iter(self._refused.values()))
        counted = f"{count_noun(len(self.tasks), 'trial')} of {self.total:,}"
        why = f"{_DRAWS_PER_TRIAL} draws in a row gave no new one"
        self._warn(f"the search ends after {counted}: {why}")
        self.total = len(self.tasks)

    def done(self, task: Task) -> None:
        """Report a trial's result to the sampler."""
        self._in_vain = 0
        self._tell(task)

    def _tell(self, task: Task) -> None:
        group = next(iter(self._records(task).values()), None)
        value = metric_of(self._measured(group), self._metric) if group else None
        for trial in self._asked.pop(task.key, []):
            if value is None:
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, value)

    def _value(self, key: str, value: Any) -> Any:
        choices = self._parameters[key].values
        chosen = choices[value] if choices else value
        return tidy(chosen) if isinstance(chosen, float) else chosen

    def _records(self, task: Task) -> dict[str, list[Record]]:
        records = self._store.load(*task.trial_ids).records.items()
        own = task.request_id
        return {
            key: group for key, group in records if task.trial_ids or group[0].request_id == own
        }


def _distribution(optuna: Any, key: str, parameter: Parameter) -> Any:
    """A parameter as Optuna's; values are chosen by their number, since Optuna takes no lists."""
    kinds = optuna.distributions
    match parameter.distribution:
        case "constant" | "categorical":
            return kinds.CategoricalDistribution(range(len(parameter.values)))
        case "int_uniform":
            return kinds.IntDistribution(int(parameter.low), int(parameter.high))
        case "uniform" | "log_uniform_values":
            log = parameter.distribution.startswith("log")
            return kinds.FloatDistribution(parameter.low, parameter.high, log=log)
        case "q_uniform":
            return kinds.FloatDistribution(parameter.low, parameter.high, step=parameter.q)
        case "q_log_uniform_values" if parameter.q == 1:
            return kinds.IntDistribution(int(parameter.low), int(parameter.high), log=True)
    lacking = f"method bayes has no {parameter.distribution}; use method: random"
    raise ConfigError(f"parameters.{key}: {lacking}")


def metric_of(row: Mapping[str, Any], metric: Metric) -> float | None:
    """The metric's value among a trial's results, or None; an error where none has the name."""
    if metric.name not in row:
        raise ConfigError(
            f"metric {metric.name}: not a column of `results`; available: {', '.join(sorted(row))}"
        )
    value = row[metric.name]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
