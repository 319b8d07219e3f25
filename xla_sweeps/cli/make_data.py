"""The command `make-data`: a small set of pictures to train on, drawn here."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields

import msgspec

from xla_sweeps.cli import command_parser
from xla_sweeps.config.values import folder_of
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.report.terminal.progress_bar import Steps
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.schema.pictures import PictureSet
from xla_sweeps.system import environment
from xla_sweeps.system.text import last_line_of

_DEFAULTS = {field.name: field.default for field in fields(PictureSet)}

_LARGEST_PX = 8192


def make_data_command(arguments: Sequence[str]) -> int:
    """Draw pictures, and write them as JPEGs."""
    parser = command_parser(
        "make-data",
        "They are noise with the spectrum of photos, in a colour for each class: they load as "
        "photos do, and mean nothing. Then: xla-sweeps scenario=fit model=resnet50 data=FOLDER",
    )
    parser.add_argument("folder", type=folder_of, help="where: a new or an empty folder")
    parser.add_argument(
        "--format",
        dest="form",
        choices=("tfrecord", "folder"),
        default=_DEFAULTS["form"],
        help="TFRecord files, or a folder for each class (default: tfrecord)",
    )
    for name, most, text in (
        ("images", 10_000_000, "how many pictures"),
        ("classes", 100_000, "how many classes"),
        ("width-px", _LARGEST_PX, "width of a picture"),
        ("height-px", _LARGEST_PX, "height of a picture"),
        ("shards", 10_000, "TFRecord files"),
        ("seed", 2**32 - 1, "of what is drawn"),
    ):
        default = _DEFAULTS[name.replace("-", "_")]
        parser.add_argument(
            f"--{name}",
            type=_count(0 if name == "seed" else 1, most),
            default=default,
            metavar="N",
            help=f"{text} (default: {default})",
        )
    options = parser.parse_args(arguments)
    folder = options.folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"make-data: {options.folder} is not empty; name a new folder")
    wanted = PictureSet(**{**vars(options), "folder": str(folder)})
    _draw(wanted)
    print(f"{wanted.images:,} pictures of {wanted.classes:,} classes: data={options.folder}")
    return 0


def _count(least: int, most: int) -> Callable[[str], int]:
    """A parser of integers within bounds."""

    def parsed(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"'{text}': expected an integer from {least} to {most:,}"
            )
        return int(text)

    return parsed


def _draw(wanted: PictureSet) -> None:
    """Start the process that draws and writes, and show how far it is."""
    backend = default_backend()
    child = environment.cpu_environment(backend)
    with (
        tempfile.TemporaryFile() as log,
        Steps("pictures", wanted.images, quiet=True) as steps,
        subprocess.Popen(
            backend.command("make_data"),
            env=child,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as drawing,
    ):
        assert drawing.stdin
        assert drawing.stdout
        try:
            with drawing.stdin as channel:
                channel.write(msgspec.json.encode(wanted))
            for line in drawing.stdout:
                steps.follow(int(line), wanted.images)
        except BaseException:
            drawing.kill()
            raise
        if drawing.wait():
            log.seek(0)
            reason = last_line_of(log.read().decode(errors="replace"))
            raise XlaSweepsError(f"make-data: {reason or 'its process died'}")
