"""Install the checkout into the environment of this Python: with uv, else with pip.

Started by `scripts/setup`. uv takes less than half of the processor time that pip takes. It is the
one on the PATH, or one that pip puts into the environment; it is told what pip's configuration says
of indexes. Where that says more than uv has words for, or uv fails, it is pip.

    python scripts/install.py [EXTRAS [PROJECT]]
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "constraint": "UV_CONSTRAINT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
}
"""Settings of pip, and the equal variables of uv."""

IRRELEVANT = {
    *("cache-dir", "config-file", "default-timeout", "disable-pip-version-check", "no-cache-dir"),
    *("no-color", "no-compile", "no-input", "prefer-binary", "progress-bar", "quiet"),
    *("require-virtualenv", "retries", "root-user-action", "timeout", "verbose"),
}
"""Settings of pip that change nothing about what is installed, or from where."""


def main(extras: str, project: str = ".") -> int:
    """Install a project of the checkout with these extras, `` or `dev,gpu`: its exit code."""
    named = f"{project}[{extras}]" if extras else project
    wanted = ["--editable", named, "--constraint", "constraints.txt"]
    asked = pip_settings()
    variables = uv_variables(asked)
    uv = None if variables is None else find_uv()
    if uv is not None and variables is not None:
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable, *wanted]
        own = Path(sys.prefix, ".uv-cache")  # on the same file system, so that files are linked
        cache = {"UV_CACHE_DIR": str(own)} if Path(uv).parent == Path(sys.executable).parent else {}
        done = subprocess.run(command, env={**cache, **variables, **os.environ}, check=False)
        shutil.rmtree(own, ignore_errors=True)
        if not done.returncode:
            return 0
        print("setup: uv could not install it; trying pip, which takes longer", file=sys.stderr)
    command = [*PIP, "install", "--quiet", "--no-compile", *wanted]  # what is imported is compiled
    return subprocess.run(command, check=False).returncode


def pip_settings() -> dict[str, str]:
    """Settings of installing in pip's configuration files and variables, the strongest last."""
    listed = subprocess.run(
        [*PIP, "config", "list"], stdout=subprocess.PIPE, text=True, check=False
    )
    if listed.returncode:
        sys.exit(listed.returncode)  # pip has said what is wrong with them
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in sections:
            sections[section][key] = str(ast.literal_eval(value))
    return sections["global"] | sections["install"] | sections[":env:"]


def uv_variables(asked: Mapping[str, str]) -> dict[str, str] | None:
    """The variables that tell uv what pip is told; None where uv cannot be told."""
    if set(asked) - set(VARIABLES) - IRRELEVANT:
        return None
    told = {VARIABLES[name]: value for name, value in asked.items() if name in VARIABLES}
    told = {name: " ".join(value.split()) for name, value in told.items()}
    if "UV_FIND_LINKS" in told:
        told["UV_FIND_LINKS"] = told["UV_FIND_LINKS"].replace(" ", ",")
    # as pip does: the best version of all indexes
    return {**told, "UV_INDEX_STRATEGY": "unsafe-best-match", "UV_PYTHON_DOWNLOADS": "never"}


def find_uv() -> str | None:
    """The uv on the PATH or in this environment, where pip puts it if it can; or None."""
    own = Path(sys.executable).parent / "uv"
    uv = shutil.which("uv") or shutil.which(own)
    if uv is None:
        get = [*PIP, "install", "--only-binary=:all:", "--no-compile", "--constraint"]
        subprocess.run([*get, "constraints.txt", "uv"], capture_output=True, check=False)
        uv = shutil.which(own)
    return uv


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or [""]))
