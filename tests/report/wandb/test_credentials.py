"""Login of W&B's client, with files that the client itself writes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import run_program
from wandb_runs import WANDB
from wandb_server import API_KEY

from xla_sweeps.errors import ConfigError
from xla_sweeps.report.wandb import credentials
from xla_sweeps.report.wandb.credentials import base_url, login, require_login

OWN = "https://wandb.example.org:8443"

Run = Callable[..., None]


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command `wandb login` of a user with an empty home folder."""
    for name in [name for name in os.environ if name.startswith(("WANDB_", "NETRC"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(credentials, "ANSWER_S", 300.0)

    def run(*arguments: str) -> None:
        run_program(WANDB, "login", "--no-verify", *arguments, cwd=tmp_path)

    return run


def refusal() -> str:
    with pytest.raises(ConfigError) as caught:
        require_login()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_online_tracking_without_a_key_is_refused_with_the_ways_to_fix_it(wandb: Run) -> None:
    assert refusal() == (
        f"tracker=wandb: W&B needs an API key for {base_url()}: run `wandb login` or set "
        "WANDB_API_KEY, or use tracker=wandb_offline"
    )


@pytest.mark.parametrize(
    "line",
    [
        "import wandb_of_tomorrow",
        pytest.param("errors = login = lambda: True", marks=pytest.mark.exhaustive),
    ],
)
def test_another_version_of_the_client_is_told_with_its_own_words(
    wandb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    (tmp_path / "wandb.py").write_text(line)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    error = "No module named 'wandb_of_tomorrow'" if "import" in line else "has no attribute"
    assert re.search(rf"tracker=wandb: the W&B client failed: .*{error}.*; or use", refusal())


def test_a_key_counts_for_the_server_that_it_was_stored_for_only(
    wandb: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb("--host", OWN, API_KEY)
    own = login()
    assert (own.url, own.logged_in) == (OWN, True)
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org:8444")
    assert refusal().startswith(
        "tracker=wandb: W&B needs an API key for https://wandb.example.org:8444: run `wandb login`"
    )


def test_a_key_of_before_the_client_changed_its_default_server_still_counts(wandb: Run) -> None:
    netrc = Path(os.environ["HOME"]) / ".netrc"
    netrc.write_text(f"machine api.wandb.ai\n  login user\n  password {API_KEY}\n")
    netrc.chmod(0o600)
    require_login()


@pytest.mark.parametrize(
    "key",
    [
        "shortkey",
        *(
            pytest.param(key, marks=pytest.mark.exhaustive)
            for key in ("local-" + "x" * 39, "x" * 39 + "!" * 5)
        ),
    ],
)
def test_a_malformed_key_is_refused_without_showing_it(
    wandb: Run, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", key)
    assert refusal().startswith("tracker=wandb: the W&B API key is invalid: WANDB_API_KEY invalid:")
    assert key not in refusal()


def test_a_wish_to_be_offline_is_no_lack_of_a_key(
    wandb: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", API_KEY)
    monkeypatch.setenv("WANDB_MODE", "offline")
    require_login()


@pytest.mark.usefixtures("wandb")
def test_a_settings_file_in_the_current_folder_chooses_no_server_for_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "downloaded"
    (folder / "wandb").mkdir(parents=True)
    (folder / "wandb" / "settings").write_text(f"[default]\nbase_url = {OWN}\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WANDB_API_KEY", API_KEY)
    assert login().logged_in
    assert login().url not in ("", OWN)
