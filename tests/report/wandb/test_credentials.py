"""The API key: where it is looked up, and how a missing one is reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from wandb_server import API_KEY

from xla_sweeps.errors import ConfigError
from xla_sweeps.report.wandb.credentials import api_key, require_api_key


def test_online_tracking_without_a_key_is_refused_with_the_ways_to_fix_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        require_api_key({"HOME": str(tmp_path)})
    assert str(caught.value) == (
        "tracker=wandb: W&B needs an API key: run `wandb login` or set WANDB_API_KEY, or use "
        "tracker=wandb_offline"
    )


def test_a_key_in_netrc_counts_for_its_own_server_only(tmp_path: Path) -> None:
    path = tmp_path / ".netrc"
    path.write_text(f"machine api.wandb.ai\n login user\n password {API_KEY}\n")
    path.chmod(0o600)
    assert api_key({"HOME": str(tmp_path)}) == API_KEY
    assert api_key({"HOME": str(tmp_path), "WANDB_BASE_URL": "https://wandb.example.org"}) is None


@pytest.mark.parametrize("key", ["short", "local-" + "x" * 39, "x" * 39 + "!" * 5])
def test_a_malformed_key_is_refused_without_showing_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_api_key({"HOME": str(tmp_path), "WANDB_API_KEY": key})
    assert "is invalid: expected at least 40 letters" in str(caught.value)
    assert key not in str(caught.value)


def test_the_key_of_another_port_of_the_same_host_does_not_count(tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1:8080 login user password {API_KEY}\n")
    environ = {"HOME": str(tmp_path), "NETRC": str(netrc)}
    assert api_key({**environ, "WANDB_BASE_URL": "http://127.0.0.1:8080"}) == API_KEY
    assert api_key({**environ, "WANDB_BASE_URL": "http://127.0.0.1:8081"}) is None


def test_the_server_in_wandbs_settings_file_decides_which_key_is_used(tmp_path: Path) -> None:
    (tmp_path / ".config/wandb").mkdir(parents=True)
    (tmp_path / ".config/wandb/settings").write_text(
        "[default]\nbase_url = https://wandb.example.org\n"
    )
    (tmp_path / ".netrc").write_text(f"machine api.wandb.ai login user password {API_KEY}\n")
    assert api_key({"HOME": str(tmp_path)}) is None
    assert api_key({"HOME": str(tmp_path), "WANDB_BASE_URL": "https://api.wandb.ai"}) == API_KEY
