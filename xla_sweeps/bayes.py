"""A search steered by results: Optuna proposes, and is told what each trial measured. Needs the extra `bayes`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from xla_sweeps.errors import ConfigError
from xla_sweeps.sweep import Metric, Parameter, Sweep, tidy


class Search:
    """Asks Optuna's TPE sampler for trials of a sweep and tells it their results.

    Args:
        sweep: with method bayes and a metric.
        seed: of the sampler: told the same results, it proposes the same trials, so that a sweep can be resumed.

    Raises:
        ConfigError: Optuna is not installed, or a parameter has a distribution that it does not know.
    """

    def __init__(self, sweep: Sweep, *, seed: int) -> None:
        try:
            import optuna
        except ImportError:
            raise ConfigError("method bayes needs Optuna; install it: pip install 'xla-sweeps[bayes]'") from None
        if sweep.metric is None:
            raise ConfigError("method bayes needs a metric")
        self.metric: Metric = sweep.metric
        self._space = {key: _distribution(optuna, key, parameter) for key, parameter in sweep.parameters.items()}
        self._choices = {key: parameter.values for key, parameter in sweep.parameters.items() if parameter.values}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._failed = optuna.trial.TrialState.FAIL
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._study = optuna.create_study(
                direction=self.metric.goal, sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True)
            )
        self._asked: dict[int, Any] = {}

    def ask(self) -> tuple[int, dict[str, Any]]:
        """The number and the values of the next trial."""
        trial = self._study.ask(self._space)
        self._asked[trial.number] = trial
        values = {key: self._choices[key][value] if key in self._choices else value
                  for key, value in trial.params.items()}  # fmt: skip
        return trial.number, {key: tidy(value) if isinstance(value, float) else value for key, value in values.items()}

    def tell(self, number: int, value: float | None) -> None:
        """What the trial of that number measured; None where it failed."""
        trial = self._asked.pop(number)
        if value is None:
            self._study.tell(trial, state=self._failed)
        else:
            self._study.tell(trial, value)


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
    raise ConfigError(f"parameters.{key}: method bayes knows no {parameter.distribution}; use method: random for it")


def metric_of(row: Mapping[str, Any], metric: Metric) -> float | None:
    """The metric's value in what a trial measured, or None.

    Raises:
        ConfigError: there is no such column.
    """
    if metric.name not in row:
        raise ConfigError(f"metric {metric.name}: no column of `results`; there are {', '.join(sorted(row))}")
    value = row[metric.name]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
