"""The command `make-data`: a small set of pictures to train on, drawn here."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from xla_sweeps.cli.arguments import command_parser
from xla_sweeps.config.values import folder_of, integer_from
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.report.terminal.console import progress_bar
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.system import programs

_LARGEST_PX = 8192

_NUMBERS = (
    ("images", 512, integer_from(1, to=10_000_000), "how many pictures"),
    ("classes", 10, integer_from(1, to=100_000), "how many classes"),
    ("width-px", 400, integer_from(1, to=_LARGEST_PX), "width of a picture"),
    ("height-px", 350, integer_from(1, to=_LARGEST_PX), "height of a picture"),
    ("shards", 4, integer_from(1, to=10_000), "TFRecord files"),
    ("seed", 0, integer_from(0, to=2**32 - 1), "of what is drawn"),
)
"""Options that take an integer: default, type, and what it is."""


def make_data_command(arguments: Sequence[str]) -> int:
    """Draw pictures, and write them as JPEGs."""
    parser = command_parser(
        "make-data",
        "They are noise with the spectrum of photos, in a colour for each class: they load as "
        "photos do, and mean nothing. Then: xla-sweeps scenario=fit model=resnet50 data=FOLDER",
    )
    parser.add_argument("folder", type=folder_of, help="where: a new or an empty folder")
    text = "TFRecord files, or a folder for each class (default: tfrecord)"
    forms = ("tfrecord", "folder")
    parser.add_argument("--format", dest="form", choices=forms, default="tfrecord", help=text)
    for name, default, number, text in _NUMBERS:
        text = f"{text} (default: {default})"
        parser.add_argument(f"--{name}", type=number, default=default, metavar="N", help=text)
    options = parser.parse_args(arguments)
    folder = options.folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"make-data: {options.folder} is not empty; name a new folder")
    wanted = msgspec.json.encode({**vars(options), "folder": str(folder)}).decode()
    with progress_bar("drawing pictures"):
        done = programs.run(default_backend(), "make_data", wanted, limit_s=None)
    if done.code:
        raise XlaSweepsError(f"make-data: {done.reason}")
    print(f"{options.images:,} pictures of {options.classes:,} classes: data={options.folder}")
    return 0
