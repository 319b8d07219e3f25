"""Command lines, JSON arguments and environments of every kind, run for real.

`python tests/support/fuzz_commands.py --cases 1000 --seed 1`: each case is made from the seed and
its number alone. A problem is a traceback, an error of our own, an exit code that is not
documented, a mistake that takes more than one line or leaves a file, a case that does not end,
and whatever is left behind. `--first N --cases 1` shows one case.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import string
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from commands import forked
from ended import wait_until, working_in
from hostile_words import ENVIRONMENT, NUMBERS, PATHS, WORDS
from paths import ROOT, SUPPORT

from xla_sweeps.cli import COMMANDS
from xla_sweeps.errors import BUG_CODE, LEFT_CODE, LOCKED_CODE, USAGE_CODE
from xla_sweeps.schema.options import OPTIONS

CODES = (0, 1, USAGE_CODE, LEFT_CODE, LOCKED_CODE)

ALLOWED_LITTER = re.compile(
    r"home/\.(cache|config)(/wandb.*)?|tmp/xla-sweeps-\d+(/.*\.(lock|next))?"
)
"""The user's cache, and the locks of leases."""

FORBIDDEN = {"--open", "--force", "--seconds", "--launcher", "--ops"}
"""Flags that a case gets only as `_command` writes them."""

ALLOWED_WRITING = re.compile(r"\w+/(cache|quarantine)(/|$)")
"""Folders that reading records may change, also by a command that is then refused."""

DEFINITION = b"""\
method: grid
parameters:
  model: {values: [mobilenet_v2, resnet50]}
  effort: {parameters: {block_s: {values: [0.1, 0.2]}}}
"""

Content = bytes | str | None
"""Content of a path of a case: a file's bytes, the target of a link, or None for a pipe."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One command line, with what it finds in its folder and its environment.

    Attributes:
        arguments: what follows `python -m xla_sweeps`.
        files: of the working folder, by relative path.
        environ: variables beside those that every case has.
    """

    arguments: tuple[str, ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The result of a case.

    Attributes:
        code: the exit code; negative where a signal ended it.
        written: what it left in its working folder.
        littered: what it left elsewhere, and processes that outlived it.
    """

    code: int
    stdout: str
    stderr: str
    seconds: float
    written: tuple[str, ...]
    littered: tuple[str, ...]


def run(case: Case, folder: Path) -> Ended:
    """Run a case in a folder of its own, which is made, and left for the caller to remove."""
    work, home, temporary = (folder / name for name in ("work", "home", "tmp"))
    for each in (work, home, temporary):
        each.mkdir(parents=True)
    for name, content in case.files.items():
        _make(work / name, content)
    before, started = _list_paths(work), time.monotonic()
    environ = {
        **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(SUPPORT)]),
        "FAKE_WORKER": "",
        "WANDB_BASE_URL": "http://127.0.0.1:9",
        **case.environ,
    }
    done = forked("bounded", *case.arguments, cwd=work, environment=environ)
    seconds = time.monotonic() - started
    wait_until(lambda: not working_in(work), 60)
    littered = {name for name in _list_paths(folder) if not name.startswith("work/")}
    for pid in working_in(work):
        littered.add(f"process {pid}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    said, complained = (
        re.sub(r"\x1b\[[0-9;]*m", "", text.replace("\ufeff", ""))
        for text in (done.stdout, done.stderr)
    )
    return Ended(
        code=done.returncode,
        stdout=said,
        stderr=complained,
        seconds=seconds,
        written=tuple(sorted(_list_paths(work) - before)),
        littered=tuple(sorted(littered - {"work", "home", "tmp", "home/.config"})),
    )


def _make(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        os.mkfifo(path)
    elif isinstance(content, str):
        path.symlink_to(content)
    else:
        path.write_bytes(content)


def _list_paths(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


class Generator:
    """Makes one case.

    Args:
        source: the only chance that there is.
        records: a results folder, by relative path.
        flags: the flags of each command.
    """

    def __init__(
        self,
        source: random.Random,
        *,
        records: Mapping[str, bytes],
        flags: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._source, self._records, self._flags = source, records, flags

    def case(self) -> Case:
        """A command line, its files and its environment."""
        kinds: tuple[tuple[int, Callable[[], tuple[str, ...]]], ...] = (
            (35, self._trial),
            (15, self._json),
            (30, self._command),
            (5, lambda: tuple(self._word() for _ in range(self._source.randint(0, 4)))),
        )
        make = self._source.choices([one for _, one in kinds], [share for share, _ in kinds])[0]
        arguments = self._sweep() if self._rarely(0.3) else make()
        arguments = tuple(self._sayable(word) for word in arguments)
        return Case(arguments=arguments, files=self._files(), environ=self._environ())

    def _trial(self) -> tuple[str, ...]:
        words = ["model=mobilenet_v2", "resolution=32", "tracker=none", "modes=[graph,xla]"]
        words = [word for word in words if not self._rarely(0.2)]
        words += [self._override() for _ in range(self._source.choice((0, 1, 1, 1, 2)))]
        if self._rarely(0.5):
            words += ["--cfg", "job"]
        if self._rarely(0.1):
            words.insert(0, "-m")
        if self._rarely(0.15):
            flags = ("--info", "--resolve", "--hydra-help", "-sc", "--config-dir", "-V", "-m")
            words.insert(self._source.randint(0, len(words)), self._source.choice(flags))
        return tuple(words)

    def _json(self) -> tuple[str, ...]:
        document = {self._key(): self._plain(2) for _ in range(self._source.randint(1, 4))}
        text = json.dumps(document, ensure_ascii=self._rarely(0.5))
        if self._rarely(0.3):
            text = "{" + self._mutated(text[1:])
        return (text, *(["--cfg", "job"] if self._rarely(0.6) else []))

    def _command(self) -> tuple[str, ...]:
        name = self._source.choice(sorted({*COMMANDS} - {"sweep"}))
        words = [name]
        for _ in range(self._source.choice((0, 1, 1, 2))):
            words.append(self._source.choice(PATHS) if self._rarely(0.7) else self._word())
        for _ in range(self._source.choice((0, 0, 1, 2))):
            flag = self._source.choice(sorted({*self._flags[name]} - FORBIDDEN) or ["--nosuch"])
            words += [flag, self._value_of(flag)] if self._rarely(0.7) else [flag]
        if name == "doctor":
            seconds = ("0", "0", "-1", "nan", "inf", "1e9", "x", "")
            words += ["--seconds", self._source.choice(seconds)]
        if name == "hub-replicas":
            words.append("--list")
        if name == "explain":
            words.append("batch_size=0")  # ends it before TensorFlow starts
        return tuple(words)

    def _value_of(self, flag: str) -> str:
        if flag in ("--output", "-o", "--results-dir"):
            safe = [path for path in PATHS if path != "pipe" and not path.startswith("/")]
            return self._source.choice(safe)
        valid = ("csv", "json", "table", "parquet", "verdict=slower", "family=x", "slower", "x")
        return self._source.choice(valid) if self._rarely(0.5) else self._word()

    def _sweep(self) -> tuple[str, ...]:
        words = ["sweep", "s.yaml", "--dry-run", "--max-trials", "200"]
        if self._rarely(0.3):
            words.append(self._override())
        if self._rarely(0.3):
            flag = self._source.choice(sorted({*self._flags["sweep"]} - FORBIDDEN))
            words += [flag, self._word()]
        if self._rarely(0.15):
            words += ["--launcher", self._source.choice(("local", "slurm", "ray", "wandb", "x"))]
        return tuple(words)

    def _override(self) -> str:
        sign = "" if self._rarely(0.8) else self._source.choice(("+", "++", "~", "=", "@"))
        if sign == "~" and self._rarely(0.7):
            return f"~{self._key()}"
        key = self._key()
        if key in ("results_dir", "path") or key.startswith("hydra."):
            return f"{sign}{key}={self._source.choice(PATHS)}"
        return f"{sign}{key}={self._value()}"

    def _key(self) -> str:
        option = self._source.choice(OPTIONS)
        inner = [f"{option.name}.{key}" for key in option.keys]
        hydra = ("hydra.run.dir", "hydra.sweep.dir", "hydra.job.chdir", "hydra.searchpath")
        roll = self._source.random()
        if roll < 0.75:
            return option.name
        if roll < 0.9 and inner:
            return self._source.choice(inner)
        if roll < 0.95:
            return self._source.choice((*hydra, "hydra/launcher", "experiment", "trust_code.x"))
        return self._word()

    def _value(self) -> str:
        option = self._source.choice(OPTIONS)
        choices = [*option.choices, str(option.default), "resnet50", "local", "1,2", "range(0,5)"]
        roll = self._source.random()
        if roll < 0.3:
            return self._source.choice(choices)
        if roll < 0.5:
            return self._source.choice(NUMBERS)
        if roll < 0.6:
            return f"[{','.join(self._word() for _ in range(self._source.randint(0, 3)))}]"
        if roll < 0.65:
            return f"{{{self._word()}:{self._word()}}}"
        if roll < 0.7:
            ranges = ("range(0,1e12)", "range(0)", "range(0,1,0)", "choice()", "interval(0,1)")
            return self._source.choice((*ranges, "glob(*)", "sort(3,1)", "shuffle(range(0,1e12))"))
        return self._word()

    def _word(self) -> str:
        roll = self._source.random()
        if roll < 0.6:
            return self._source.choice(WORDS)
        if roll < 0.75:
            return self._source.choice(NUMBERS)
        if roll < 0.9:
            return "".join(self._source.choices(string.printable, k=self._source.randint(1, 12)))
        size = self._source.randint(1, 12)
        return os.fsdecode(bytes(self._source.randint(1, 255) for _ in range(size)))

    def _plain(self, depth: int) -> Any:
        """Plain data, as JSON holds it."""
        roll = self._source.random()
        if depth and roll < 0.2:
            return [self._plain(depth - 1) for _ in range(self._source.randint(0, 3))]
        if depth and roll < 0.3:
            return {self._word(): self._plain(depth - 1)}
        if roll < 0.5:
            numbers = (0, 1, -1, 2.5, 10**30, 1e308, True, None, False)
            return self._source.choice(numbers)
        if roll < 0.7:
            return self._source.choice(("mobilenet_v2", "quick", "graph", "\ud800", "a\0b"))
        return self._word()

    def _files(self) -> dict[str, Content]:
        files: dict[str, Content] = {"f": b"no folder", "loop": "loop", "pipe": None}
        files["link"] = "results"
        files["s.yaml"] = DEFINITION
        if self._rarely(0.6):
            for folder in ("results", "other"):
                for name, content in self._records.items():
                    damaged = self._rarely(0.15)
                    files[f"{folder}/{name}"] = self._mutated_bytes(content) if damaged else content
        return files

    def _environ(self) -> dict[str, str]:
        names = self._source.sample(sorted(ENVIRONMENT), self._source.choice((0, 0, 1, 1, 2)))
        return {name: self._source.choice(ENVIRONMENT[name]) for name in names}

    def _mutated(self, text: str) -> str:
        place = self._source.randrange(len(text) + 1)
        return text[:place] + self._word() + text[place + self._source.randint(0, 3) :]

    def _mutated_bytes(self, content: bytes) -> bytes:
        changed = bytearray(content)
        for _ in range(self._source.randint(1, 4)):
            changed[self._source.randrange(len(changed))] = self._source.randint(0, 255)
        return bytes(
            changed[: self._source.randint(1, len(changed))] if self._rarely(0.2) else changed
        )

    def _sayable(self, word: str) -> str:
        """A word as an argument: without NUL, and only with surrogates that stand for bytes."""
        return os.fsdecode(
            word.replace("\0", "").encode("utf-8", "surrogateescape")
            if not re.search("[\ud800-\udbff]", word)
            else word.replace("\0", "").encode("utf-8", "replace")
        )

    def _rarely(self, share: float) -> bool:
        return self._source.random() < share


def problems(case: Case, ended: Ended) -> Iterator[str]:
    """Problems with the end of a case."""
    if "Traceback (most recent" in ended.stderr + ended.stdout:
        yield "traceback"
    if ended.code == BUG_CODE:
        yield "error of our own"
    elif ended.code not in CODES:
        yield f"exit code {ended.code}"
    said = [line for line in ended.stderr.splitlines() if not line.startswith("warning: ")]
    if ended.code == USAGE_CODE:
        usage = said[:1] and said[0].startswith("usage: xla-sweeps ")  # of the bare command
        if not usage and (len(said) != 1 or not said[0].startswith("xla-sweeps: ")):
            yield f"refused in {len(said)} lines"
        written = [name for name in ended.written if not ALLOWED_WRITING.match(name)]
        if written:
            yield f"refused, and wrote {', '.join(written[:3])}"
    litter = [name for name in ended.littered if not ALLOWED_LITTER.fullmatch(name)]
    if litter and ended.code != BUG_CODE:
        yield f"left {', '.join(litter[:3])}"


def prepared(folder: Path) -> tuple[dict[str, bytes], dict[str, tuple[str, ...]]]:
    """A results folder with one record, and the flags of each command, from its help."""
    words = ("model=mobilenet_v2", "resolution=32", "modes=[graph,xla]", "tracker=none")
    ended = run(Case(arguments=words), folder / "trial")
    results = folder / "trial" / "work" / "results"
    records = {
        str(path.relative_to(results)): path.read_bytes() for path in results.glob("records/*/*")
    }
    assert records, ended.stderr
    flags = {}
    for name in COMMANDS:
        text = run(Case(arguments=(name, "--help")), folder / name).stdout
        flags[name] = tuple(sorted(set(re.findall(r"(?<!\w)--[a-z][a-z-]+", text)) - {"--help"}))
    return records, flags


def shown(case: Case, ended: Ended) -> str:
    """A case as one can run it, and what it printed."""
    words = shlex.join(["python", "-m", "xla_sweeps", *case.arguments])
    places = [*(shlex.join([f"{name}={value}"]) for name, value in case.environ.items()), words]
    text = f"  {' '.join(places)[:600]!r}\n  stderr {ended.stderr.strip()[-500:]!r}"
    return text


def main() -> int:
    """Run the cases; exit code 1 if one has a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as root:
        records, flags = prepared(Path(root, "prepared"))
        for number in range(options.first, options.first + options.cases):
            source = random.Random(f"{options.seed} {number}")
            case = Generator(source, records=records, flags=flags).case()
            folder = Path(root, str(number))
            ended = run(case, folder)
            wrong = list(problems(case, ended))
            bad += bool(wrong)
            if wrong or options.cases == 1:
                print(f"case {number}: {'; '.join(wrong) or 'no problem'}", flush=True)
                print(f"{shown(case, ended)}\n  exit {ended.code}, {ended.seconds:.1f} s")
            shutil.rmtree(folder)
    print(f"{options.cases:,} cases, seed {options.seed}: {bad} with a problem")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
