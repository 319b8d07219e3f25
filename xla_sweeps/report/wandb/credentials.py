"""Find W&B's API key and server address as its client does."""

from __future__ import annotations

import configparser
import contextlib
import netrc
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlparse

from xla_sweeps.errors import ConfigError

DEFAULT_URL = "https://api.wandb.ai"
MIN_KEY_CHARACTERS = 40


def api_key(environ: Mapping[str, str]) -> str | None:
    """The API key in the environment, the netrc file or W&B's settings files.

    Never show or store it.
    """
    if environ.get("WANDB_API_KEY"):
        return environ["WANDB_API_KEY"]
    home = Path(environ.get("HOME") or Path.home())
    settings = _client_settings(environ, home)
    place = urlparse(base_url(environ)).netloc
    for path in (
        (Path(environ["NETRC"]).expanduser(),)
        if environ.get("NETRC")
        else (home / ".netrc", home / "_netrc")
    ):
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            found = netrc.netrc(path).authenticators(place)
            if found and found[2]:
                return found[2]
    return settings.get("api_key")


def base_url(environ: Mapping[str, str]) -> str:
    """The address of the W&B server that the client will use."""
    home = Path(environ.get("HOME") or Path.home())
    return (
        environ.get("WANDB_BASE_URL")
        or _client_settings(environ, home).get("base_url")
        or DEFAULT_URL
    )


def require_api_key(environ: Mapping[str, str]) -> None:
    """Refuse online tracking without a key, before anything is measured.

    Raises:
        ConfigError: the key is missing or invalid; the message says what to do.
    """
    key = api_key(environ)
    if not key and not environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        raise ConfigError(
            "tracker=wandb: W&B needs an API key: run `wandb login` or set WANDB_API_KEY, or use "
            "tracker=wandb_offline"
        )
    if key and not _is_api_key(key):
        raise ConfigError(
            f"tracker=wandb: the W&B API key is invalid: expected at least {MIN_KEY_CHARACTERS} "
            "letters, digits and underscores; run `wandb login` or set WANDB_API_KEY, or use "
            "tracker=wandb_offline"
        )


def _is_api_key(text: str) -> bool:
    """Whether the client accepts it: a JWT, or at least 40 characters after an optional prefix."""
    secret = text.partition("-")[2] or text
    return bool(
        re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", text)
        or re.fullmatch(rf"[\w-]{{{MIN_KEY_CHARACTERS},}}", secret)
    )


def _client_settings(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """W&B's settings files; the folder's take precedence over the user's."""
    parser = configparser.ConfigParser(interpolation=None)
    config_dir = Path(environ.get("WANDB_CONFIG_DIR") or home / ".config" / "wandb")
    for path in (
        config_dir / "settings",
        Path(environ.get("WANDB_DIR") or ".") / "wandb" / "settings",
    ):
        with contextlib.suppress(configparser.Error, UnicodeDecodeError):
            parser.read(path)
    return dict(parser["default"]) if parser.has_section("default") else {}
