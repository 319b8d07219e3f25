"""Trials as the command line composes them, and what it says of wrong ones."""

from __future__ import annotations

import contextlib
import copy
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import pytest
from factories import make_record

from xla_sweeps.config import catalog, compose
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.settings import Settings, identify, settings_of
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.record import Record
from xla_sweeps.system.environment import environment


def settings(*overrides: str, environ: dict[str, str] | None = None) -> Settings:
    explicit = {text.lstrip("+").partition("=")[0] for text in overrides}
    cpu = [] if "device" in explicit else ["device=cpu"]
    return settings_of(compose_config([*cpu, *overrides]), explicit=explicit, environ=environ or {})


def record_of(*overrides: str, call_s: Mapping[str, float], **more: Any) -> Record:
    """A record of the trial that these overrides ask for, whose modes take `call_s` a call."""
    asked = settings(*overrides)
    identifier = identify(asked, environment())
    return make_record(call_s, trial_id=identifier, trial=asked.trial, **more)


@contextlib.contextmanager
def composed_once() -> Iterator[None]:
    """Compose the same words once: Hydra takes a fifth of a second each time.

    Folders of someone's own are read each time, and what Hydra runs is composed for it.
    """
    compose_run, kept = compose.compose_run, {}

    def run_kept(words: Sequence[str], *, config_dir: OwnFolder | None = None) -> Any:
        if config_dir is not None:
            return compose_run(words, config_dir=config_dir)
        key = (*words, str(catalog.conf_dir()))
        if key not in kept:
            kept[key] = compose_run(words)[0]
        return copy.deepcopy(kept[key]), lambda task: compose_run(words)[1](task)

    with mock.patch.object(compose, "compose_run", run_kept):
        yield


def complaint(*overrides: str) -> str:
    return complaint_of(settings, *overrides, kind=XlaSweepsError)


def complaint_of(
    call: Callable[..., object],
    *given: Any,
    kind: type[XlaSweepsError] = ConfigError,
    **named: Any,
) -> str:
    """The line that a call is refused with."""
    with pytest.raises(kind) as caught:
        call(*given, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def cases(table: str) -> list[tuple[list[str], str]]:
    """The rows of a table: words as a shell takes them, and how the line that refuses them begins.

    A row is `words -> line`; a long one goes on in the next line, at its arrow.
    """
    rows = [row.partition(" -> ") for row in table.strip().replace("\n  -> ", " -> ").splitlines()]
    return [(shlex.split(words), line) for words, _, line in rows]
