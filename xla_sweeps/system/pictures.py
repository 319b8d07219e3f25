"""Pictures to train on: TFRecord files of JPEGs, or a folder with a folder for each class.

Read without TensorFlow: the list of files, and a check that each is whole.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from xla_sweeps.errors import ConfigError

SUFFIXES = (".jpg", ".jpeg")
"""Names of pictures end in one of these, whatever the case."""

_HEADER = struct.Struct("<QI")
_FOOTER_BYTES = 4
_COMPRESSED = (b"\x1f\x8b", b"\x78\x9c", b"\x78\x01", b"\x78\xda")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """Pictures with a class each.

    Attributes:
        form: `tfrecord`, or `folder`: a folder for each class.
        files: TFRecord files, or pictures in the order of their classes.
        labels: the class of each picture, from 0; empty for TFRecord files, which say it inside.
        count: pictures.
        fingerprint: sixteen hex digits of names and sizes.
    """

    form: Literal["tfrecord", "folder"]
    files: tuple[str, ...]
    labels: tuple[int, ...]
    count: int
    fingerprint: str


@cache
def find(path: str, *, shown: str = "") -> Pictures:
    """The pictures of a folder, or of one TFRecord file.

    Args:
        path: of the folder or the file.
        shown: how errors write it: as the user gave it.

    Raises:
        ConfigError: no file or folder is there, it holds no picture, or a file is damaged.
    """
    root, shown = Path(path), shown or path
    if not root.exists():
        raise ConfigError(
            f"data={shown}: there is no such file or folder; `xla-sweeps make-data {shown}` makes "
            "a small set"
        )
    if not (root.is_file() or root.is_dir()):
        raise ConfigError(f"data={shown}: is neither a file nor a folder")
    try:
        entries = sorted(root.iterdir()) if root.is_dir() else [root]
        records = [
            entry
            for entry in entries
            if entry == root or (entry.is_file() and ".tfrecord" in entry.name)
        ]
        labels, files = [], records
        if not records:
            folders = [entry for entry in entries if entry.is_dir()]
            labelled = [
                (label, file)
                for label, folder in enumerate(folders)
                for file in sorted(folder.iterdir())
                if file.suffix.lower() in SUFFIXES
            ]
            labels, files = [label for label, _ in labelled], [file for _, file in labelled]
        if not files:
            raise ConfigError(
                f"data={shown}: holds no picture: expected *.tfrecord files, or a folder for each "
                "class with .jpg files; `xla-sweeps make-data` makes a small set"
            )
        count = len(labels) or sum(map(_records_in, records))
        if not count:
            raise ConfigError(f"data={shown}: holds no picture: its TFRecord files are empty")
        return Pictures(
            form="tfrecord" if records else "folder",
            files=tuple(map(str, files)),
            labels=tuple(labels),
            count=count,
            fingerprint=_fingerprint(root, files),
        )
    except OSError as error:
        raise ConfigError(f"data={shown}: cannot be read: {error.strerror}") from error


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


def _fingerprint(root: Path, files: Iterable[Path]) -> str:
    """Sixteen hex digits of the names below the folder and the sizes."""
    digest = hashlib.sha256()
    for path in files:
        name = path.name if path == root else os.path.relpath(path, root)
        digest.update(f"{name}\0{path.stat().st_size}\n".encode())
    return digest.hexdigest()[:16]
