"""Ask W&B's client, in its own process, whether it is logged in and which server it uses."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache

import msgspec

from xla_sweeps.errors import ConfigError
from xla_sweeps.report.wandb.client import Helper
from xla_sweeps.system.devices import read_or_empty
from xla_sweeps.system.files import scratch_folder
from xla_sweeps.system.installation import cure
from xla_sweeps.system.text import CREDENTIALS_RULE, has_credentials, redact

ANSWER_S = 30.0

LATE = f"did not answer within {ANSWER_S:.0f} s; does `wandb status` work?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The client's login, as it is configured; no server is asked. Without a `url` it failed."""

    url: str = ""
    logged_in: bool = False
    problem: str = ""


def login() -> Login:
    """Ask the client once in this environment; takes a second or two."""
    return _ask_client(frozenset(os.environ.items()))


def base_url() -> str:
    """The address of the W&B server that the client uses."""
    return os.environ.get("WANDB_BASE_URL") or login().url


def require_login() -> None:
    """Refuse (ConfigError) online tracking without valid credentials, and say what to do."""
    if has_credentials(os.environ.get("WANDB_BASE_URL", "")):
        raise ConfigError(CREDENTIALS_RULE)
    account = login()
    if account.logged_in:
        return
    ways = "run `wandb login` or set WANDB_API_KEY, or use tracker=wandb_offline"
    reason = f"W&B needs an API key for {account.url}: {ways}"
    if account.problem:
        reason = f"the W&B API key is invalid: {account.problem}; {ways}"
    if not account.url:
        reason = f"{account.problem}; {cure('wandb') or 'or use tracker=wandb_offline'}"
    raise ConfigError(f"tracker=wandb: {reason}")


@cache
def _ask_client(environment: frozenset[tuple[str, str]]) -> Login:
    with scratch_folder() as folder:
        log = folder / "login.log"
        helper = Helper(log)
        try:
            answer = helper.ask("login", ANSWER_S)
        finally:
            helper.end(0.0)
        errors = re.findall(r"^[\w.]*Error: .*", read_or_empty(log), re.MULTILINE)
    if answer and "url" in answer:
        return msgspec.convert(answer, Login)
    said = answer["warnings"] if answer else [redact(one) for one in errors[-1:]]
    problem = f"failed: {'; '.join(said)}" if said else LATE
    return Login(problem=f"the W&B client {problem}")
