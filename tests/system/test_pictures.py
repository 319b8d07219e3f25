"""Pictures in a folder, and refusals before anything is trained on them."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from xla_sweeps.errors import ConfigError
from xla_sweeps.system import pictures


def record(data: bytes) -> bytes:
    """A record of a TFRecord file, without true checksums."""
    return struct.pack("<QI", len(data), 0) + data + bytes(4)


def write(path: Path, records: Sequence[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(record, records)))
    return path


JPEG = b"\xff\xd8\xff\xda" + b"pixels"
"""Looked at only when it is read."""


def folder_of(root: Path, **files: bytes) -> Path:
    (root / "cat").mkdir(parents=True)
    for name, content in files.items():
        root.joinpath("cat", name.replace("_", ".")).write_bytes(content)
    return root


def complaint(path: Path) -> str:
    pictures.find.cache_clear()
    with pytest.raises(ConfigError) as caught:
        pictures.find(str(path))
    return str(caught.value)


def test_the_records_of_all_files_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [b"one", b"", b"three"])
    write(tmp_path / "b.tfrecord-00001", [b"four"])
    dataset = pictures.find(str(tmp_path))
    assert (dataset.form, dataset.count) == ("tfrecord", 4)
    assert [Path(name).name for name in dataset.files] == ["a.tfrecord", "b.tfrecord-00001"]
    alone = pictures.find(str(tmp_path / "a.tfrecord"))
    assert alone.count == 3
    assert alone.fingerprint != dataset.fingerprint


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    for name in ("dog/2.JPG", "cat/1.jpeg", "cat/0.jpg", "cat/notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(JPEG)
    dataset = pictures.find(str(tmp_path))
    assert (dataset.form, dataset.labels) == ("folder", (0, 0, 1))
    assert [Path(name).name for name in dataset.files] == ["0.jpg", "1.jpeg", "2.JPG"]


def test_a_hidden_folder_is_no_class_and_a_folder_of_data_sets_is_named(tmp_path: Path) -> None:
    for name in (".ipynb_checkpoints/0.jpg", "cat/0.jpg", "dog/0.jpg"):
        path = tmp_path / "train" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(JPEG)
    assert pictures.find(str(tmp_path / "train")).labels == (0, 1)
    (tmp_path / "a_copy").symlink_to(tmp_path / "train")
    assert complaint(tmp_path) == (
        f"data={tmp_path}: its folders hold folders of pictures; write data={tmp_path}/train"
    )


def test_files_with_other_names_are_left_out_and_named(tmp_path: Path) -> None:
    names = ("a_jpg", "b_jpg", "c_GIF", "d_bmp", "e_webp")
    root = folder_of(tmp_path / "pics", **dict.fromkeys(names, JPEG))
    for name in ("readme.txt", ".DS_Store"):
        (root / name).write_text("no picture")
    dataset = pictures.find(str(root))
    assert dataset.count == 4
    assert dataset.left_out == ("cat/e.webp", "readme.txt")
    assert dataset.remark.startswith("2 files left out, whose names do not end in .jpg, .jpeg, ")


def test_what_has_the_name_of_a_picture_and_is_no_file_is_named(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "pics", a_jpg=JPEG)
    os.mkfifo(root / "cat" / "b.jpg")
    assert complaint(root) == f"data={root}: cat/b.jpg is not a file; remove it"
    (root / "cat" / "b.jpg").unlink()
    (root / "cat" / "b.jpg").symlink_to(root / "gone")
    assert complaint(root) == (
        f"data={root}: cannot be read: No such file or directory: {root}/cat/b.jpg"
    )


def test_the_content_counts_and_not_the_path(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        write(folder / "a.tfrecord", [b"same"])
    assert pictures.find(str(one)).fingerprint == pictures.find(str(other)).fingerprint
    pictures.find.cache_clear()
    write(other / "a.tfrecord", [b"longer"])
    assert pictures.find(str(one)).fingerprint != pictures.find(str(other)).fingerprint


@pytest.mark.parametrize("cut", [1, 4, 5, 9, 17])
def test_a_file_that_ends_within_a_record_is_named_with_the_record(
    tmp_path: Path, cut: int
) -> None:
    path = write(tmp_path / "a.tfrecord", [b"first", b"second"])
    path.write_bytes(path.read_bytes()[:-cut])
    write(tmp_path / "b.tfrecord", [b"good"])
    assert f"{path}: record 2 is cut off or damaged" in complaint(tmp_path)


def test_what_is_no_record_is_the_first_one_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"these bytes are no records of anything")
    assert f"{path}: record 1 is cut off or damaged" in complaint(path)
    path.write_bytes(b"\x1f\x8b" + bytes(30))
    assert complaint(path) == f"data={path}: is compressed; unpack it"


def test_a_device_or_a_pipe_is_refused_without_being_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        assert complaint(path) == f"data={path}: is neither a file nor a folder"


def test_nothing_to_train_on_is_said_in_one_line(tmp_path: Path) -> None:
    assert complaint(tmp_path / "gone") == (
        f"data={tmp_path / 'gone'}: there is no such file or folder; expected "
        "*.tfrecord files, or a folder for each class with pictures"
    )
    (tmp_path / "empty" / "class").mkdir(parents=True)
    assert complaint(tmp_path / "empty").startswith(f"data={tmp_path / 'empty'}: holds no picture")
    write(tmp_path / "none" / "a.tfrecord", [])
    assert complaint(tmp_path / "none").endswith("holds no picture: its TFRecord files are empty")
