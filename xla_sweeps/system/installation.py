"""Commands that install into the environment of this Python, and what it lacks."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

EXTRAS = {
    "gpu": ("tensorflow[and-cuda]",),
    "hub": ("keras-cv", "keras-hub", "tensorflow-hub"),
    "report": ("wandb-workspaces",),
    "bayes": ("optuna",),
}
"""Packages of this package's extras, which no package index has; of others their own name."""

_OWN = "xla-sweeps"


def how_to_install(extra: str) -> str:
    """The command that installs an extra of this package (`keras-cv`)."""
    place = Path(sys.prefix)
    if place.name == ".venv" and (place / ".installed-base").is_file():
        return shlex.join([str(place.parent / "scripts/setup"), extra])
    return install(*EXTRAS.get(extra, (extra,)))


def install(*requirements: str, again: bool = False) -> str:
    """The command that installs these, or installs them again, in an environment of any kind."""
    place, python, more = Path(sys.prefix), sys.executable, ["--reinstall"] if again else []
    if (place / "pipx_metadata.json").is_file():
        words = ["pipx", "inject", *(["--force"] if again else []), place.name]
    elif (receipt := place / "uv-receipt.toml").is_file():
        words = ["uv", "tool", "install", *more]
        return shlex.join([*words, *_uv_tool(receipt, requirements)])
    elif importlib.util.find_spec("pip") is None:
        words = ["uv", "pip", "install", "--python", python, *more]
    else:
        pip = ["pip"] if shutil.which("pip") == str(place / "bin/pip") else [python, "-m", "pip"]
        words = [*pip, "install", *(["--force-reinstall"] if again else [])]
    return shlex.join([*words, *requirements])


def _uv_tool(receipt: Path, requirements: tuple[str, ...]) -> list[str]:
    """The words that name the tool as it was installed, and all that goes into it."""
    own, *others = tomllib.loads(receipt.read_text("utf-8"))["tool"]["requirements"]
    added = [f"{one['name']}{one.get('specifier', '')}" for one in others]
    place = next((own[key] for key in ("directory", "editable", "path", "url") if key in own), _OWN)
    extras = f"[{','.join(own['extras'])}]" if own.get("extras") else ""
    words = [f"--with={word}" for word in dict.fromkeys((*added, *requirements))]
    return [*words, *(["--editable"] if "editable" in own else []), f"{place}{extras}"]


class Unmet(NamedTuple):
    """A requirement of an installed package, by name and version, and what to install for it."""

    owner: str
    needed: str
    words: tuple[str, ...]


def cure(*packages: str) -> str:
    """What is `unmet`, and the command that installs it; "" if nothing is."""
    lacking = list(unmet(*packages))
    needs = "; ".join(f"{one.owner} needs {one.needed}" for one in lacking)
    words = dict.fromkeys(word for one in lacking for word in one.words)
    return f"{needs}: {install(*words)}" if lacking else ""


def unmet(*packages: str) -> Iterator[Unmet]:
    """Requirements of packages, and of those that they need, that are not met.

    Those of this package itself count if they are installed: the frameworks are a choice. Where one
    of `packages` has another version, what needs it is to follow: tf-keras, and not TensorFlow.
    """
    from packaging.requirements import Requirement

    kept = [name.replace("_", "-") for name in packages]
    owners = [_OWN, *kept]
    for owner in owners:  # it grows
        version = version_of(owner)
        for text in (metadata.requires(owner) or ()) if version else ():
            try:
                one = Requirement(text)
            except ValueError:  # of an earlier format
                continue
            if one.marker and not one.marker.evaluate({"extra": ""}):
                continue
            name, found = one.name.replace("_", "-"), version_of(one.name)
            module = re.sub(r"[-.]", "_", name)  # tensorflow-cpu brings TensorFlow too
            if found is None and (owner == _OWN or importlib.util.find_spec(module)):
                continue
            if found is None or not one.specifier.contains(found, prereleases=True):
                needed = f"{name}{one.specifier}"
                follows = found and name in kept and owner != _OWN
                words = (owner, f"{name}=={found}") if follows else (needed,)
                yield Unmet(f"{owner} {version}", needed, words)
            if name not in owners:
                owners.append(name)


def version_of(package: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
