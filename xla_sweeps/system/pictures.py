"""Pictures to train on: TFRecord files, or a folder with a folder for each class.

Read without TensorFlow: the list of files, and the number of records. A picture that cannot be
decoded fails when it is read, in `backends.tensorflow.pictures`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from xla_sweeps.errors import ConfigError
from xla_sweeps.system.text import count_noun

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
"""Names of pictures end in one of these, whatever the case: those that Keras reads too."""

_SIZES, CHANNELS = 3, 3
"""Of the shape of a picture: height, width and channels."""

_EXPECTED = "expected *.tfrecord files, or a folder for each class with pictures"

_NAMED = 5
"""Files that a line names."""

_HEADER = struct.Struct("<QI")
_FOOTER_BYTES = 4
_COMPRESSED = (b"\x1f\x8b", b"\x78\x9c", b"\x78\x01", b"\x78\xda")


def check_taken(model: str, shapes: Sequence[Sequence[int]], *, path: str) -> None:
    """Refuse pictures for a model whose inputs are not one picture.

    Raises:
        ConfigError: with the shapes.
    """
    sides = [list(shape[:2]) for shape in shapes if len(shape) == _SIZES and shape[2] == CHANNELS]
    if len(shapes) != 1 or not sides or sides[0][0] != sides[0][1]:
        shapes_found = f", found {', '.join(map(str, map(list, shapes)))}" if shapes else ""
        raise ConfigError(
            f"data={path}: {model} does not take pictures: expected one input [side, side, 3]"
            f"{shapes_found}; use another model, as model=mobilenet_v2, or leave data out"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """Pictures with a class each.

    Attributes:
        form: `tfrecord`, or `folder`: a folder for each class.
        files: TFRecord files, or pictures in the order of their classes.
        labels: the class of each picture, from 0; empty for TFRecord files, which say it inside.
        fingerprint: sixteen hex digits of names and sizes.
        left_out: names of files in the folders that are not among the pictures.
    """

    form: Literal["tfrecord", "folder"]
    files: tuple[str, ...]
    labels: tuple[int, ...]
    count: int
    fingerprint: str
    left_out: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """A line on the files that are left out, or ""."""
        if not self.left_out:
            return ""
        return (
            f"{count_noun(len(self.left_out), 'file')} left out, whose names do not end in "
            f"{', '.join(SUFFIXES)}: {_list_names(self.left_out)}"
        )


@cache
def find(path: str, *, shown: str = "") -> Pictures:
    """The pictures of a folder, or of one TFRecord file.

    Raises:
        ConfigError: no file or folder is there, it holds no picture, or a file is damaged.
    """
    root, shown = Path(path), shown or path
    if not root.exists():
        raise ConfigError(f"data={shown}: there is no such file or folder; {_EXPECTED}")
    if not (root.is_file() or root.is_dir()):
        raise ConfigError(f"data={shown}: is neither a file nor a folder")
    try:
        entries = sorted(root.iterdir()) if root.is_dir() else [root]
        records = [
            entry
            for entry in entries
            if entry == root or (entry.is_file() and ".tfrecord" in entry.name)
        ]
        labels, files, folders = [], records, list[Path]()
        left_out: list[Path] = []
        if not records:
            folders = [entry for entry in entries if entry.is_dir() and entry.name[0] != "."]
            inside = [
                (label, file) for label, one in enumerate(folders) for file in sorted(one.iterdir())
            ]
            labelled = [pair for pair in inside if pair[1].suffix.lower() in SUFFIXES]
            labels, files = [label for label, _ in labelled], [file for _, file in labelled]
            others = {*entries, *(file for _, file in inside)} - {*folders, *files}
            left_out = [file for file in sorted(others) if file.name[0] != "."]
        if not files:
            _refuse_split(folders, shown)
            raise ConfigError(f"data={shown}: holds no picture: {_EXPECTED}")
        count = len(labels) or sum(map(_records_in, records))
        if not count:
            raise ConfigError(f"data={shown}: holds no picture: its TFRecord files are empty")
        return Pictures(
            form="tfrecord" if records else "folder",
            files=tuple(map(str, files)),
            labels=tuple(labels),
            count=count,
            fingerprint=_fingerprint(root, files, shown),
            left_out=tuple(os.path.relpath(file, root) for file in left_out),
        )
    except OSError as error:
        why = ": ".join(map(str, filter(None, (error.strerror, error.filename))))
        raise ConfigError(f"data={shown}: cannot be read: {why}") from error


def _refuse_split(folders: Sequence[Path], shown: str) -> None:
    """Refuse a folder of data sets, as train and validation, and name one of them."""
    parts = [part.name for part in folders if any(map(_holds_pictures, part.iterdir()))]
    if parts:
        name = "train" if "train" in parts else parts[0]
        place = Path(shown) / name
        raise ConfigError(f"data={shown}: its folders hold folders of pictures; write data={place}")


def _holds_pictures(folder: Path) -> bool:
    return folder.is_dir() and any(file.suffix.lower() in SUFFIXES for file in folder.iterdir())


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _records_in(path: Path) -> int:
    """The number of records in a TFRecord file; their checksums are not checked.

    A record is its length (8 bytes), a checksum of that (4), the data, and a checksum (4), as in
    https://www.tensorflow.org/tutorials/load_data/tfrecord.

    Raises:
        ConfigError: the file ends within a record, or is none; names the record, from 1.
    """
    size, position, count = path.stat().st_size, 0, 0
    with path.open("rb") as handle:
        while position < size:
            header = handle.read(_HEADER.size)
            if not count and header.startswith(_COMPRESSED):
                raise ConfigError(f"data={path}: is compressed; unpack it")
            length = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else size
            position += _HEADER.size + length + _FOOTER_BYTES
            if position > size:
                raise ConfigError(
                    f"data={path}: record {count + 1:,} is cut off or damaged: the file has "
                    f"{size:,} bytes, and this record would end after {position:,}"
                )
            handle.seek(position)
            count += 1
    return count


def _fingerprint(root: Path, files: Iterable[Path], shown: str) -> str:
    """Sixteen hex digits of the names below the folder and the sizes; refuses what is no file."""
    digest = hashlib.sha256()
    for path in files:
        name = path.name if path == root else os.path.relpath(path, root)
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait
            raise ConfigError(f"data={shown}: {name} is not a file; remove it")
        digest.update(f"{name}\0{status.st_size}\n".encode())
    return digest.hexdigest()[:16]
