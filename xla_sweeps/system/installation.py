"""Commands that install into the environment of this Python, and what it lacks."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
from importlib import metadata
from pathlib import Path

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


def cure(*packages: str) -> str:
    """What is `unmet`, and the command that installs it; "" if nothing is."""
    lacking = unmet(*packages)
    words = dict.fromkeys(word for wanted in lacking.values() for word in wanted)
    return f"{'; '.join(lacking)}: {install(*words)}" if lacking else ""


def unmet(*packages: str) -> dict[str, tuple[str, ...]]:
    """Sentences on what packages, and those that they need, lack; and what to install for each.

    Requirements of this package itself count if they are installed: the frameworks are a choice.
    Where one of `packages` has another version, what needs it follows it: tf-keras TensorFlow.
    """
    from packaging.requirements import Requirement

    lacking: dict[str, tuple[str, ...]] = {}
    version = functools.cache(version_of)  # reads the whole description of a package
    kept = [name.replace("_", "-") for name in packages]
    owners = [_OWN, *kept]
    for owner in owners:  # it grows
        for text in (metadata.requires(owner) or ()) if version(owner) else ():
            try:
                one = Requirement(text)
            except ValueError:  # of an earlier format
                continue
            if one.marker and not one.marker.evaluate({"extra": ""}):
                continue
            name = one.name.replace("_", "-")
            found = version(name)
            if name not in owners:
                owners.append(name)
            module = re.sub(r"[-.]", "_", name)
            if found is None and (owner == _OWN or importlib.util.find_spec(module)):
                continue  # tensorflow-cpu brings TensorFlow too
            if found is None or not one.specifier.contains(found, prereleases=True):
                needed = f"{name}{one.specifier}"
                follows = found and name in kept and owner != _OWN
                wanted = (owner, f"{name}=={found}") if follows else (needed,)
                lacking[f"{owner} {version(owner)} needs {needed}"] = wanted
    return lacking


def version_of(package: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
