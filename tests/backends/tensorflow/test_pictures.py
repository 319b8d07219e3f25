"""Pictures that were made here, read as a training reads them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from composed import complaint_of
from factories import TRIAL
from made_pictures import data_of, example_of, make_pictures, write_records

from xla_sweeps.backends.tensorflow.pictures import Feed
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.trial import InputSpec, Training
from xla_sweeps.system.pictures import find

pytestmark = pytest.mark.tf

IMAGES, CLASSES = 10, 3


@pytest.fixture(scope="module", params=["tfrecord", "folder"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder, size = tmp_path_factory.mktemp(request.param), {"width_px": 80, "height_px": 60}
    make_pictures(folder, images=IMAGES, classes=CLASSES, form=request.param, **size)
    return str(folder)


def feed(folder: str, *, seed: int = 0, drop_remainder: bool = False) -> Feed:
    """The batches of four of a trial whose model takes colours from 0 to 255."""
    data = data_of(folder, drop_remainder=drop_remainder)
    trial = replace(TRIAL, training=Training(data=data), batch_size=4, seed=seed)
    trial = replace(trial, batches=2 if drop_remainder else 3)
    return Feed(trial, [InputSpec(shape=(32, 32, 3), low=0, high=255)])


def batches(folder: str, **options: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(feed(folder, **options).epoch().as_numpy_iterator())


def test_an_epoch_holds_each_picture_once_and_its_last_batch_is_smaller(made: str) -> None:
    assert find(made).count == IMAGES
    epoch = batches(made)
    assert [images.shape for images, _ in epoch] == [(4, 32, 32, 3), (4, 32, 32, 3), (2, 32, 32, 3)]
    labels = sorted(int(label) for _, some in epoch for label in some)
    assert labels == sorted(number % CLASSES for number in range(IMAGES))
    assert [len(labels) for _, labels in batches(made, drop_remainder=True)] == [4, 4]


def test_pictures_have_the_colour_of_their_class_and_are_not_alike(made: str) -> None:
    images, labels = (np.concatenate(items) for items in zip(*batches(made), strict=True))
    assert images.dtype == np.float32
    assert 0 <= images.min() < 60 < 190 < images.max() <= 255
    means = {label: images[labels == label].mean(axis=(0, 1, 2)) for label in range(CLASSES)}
    for label, mean in means.items():
        expected = 128 + 60 * np.cos(2 * np.pi * (label / CLASSES + np.arange(3) / 3))
        assert np.argmax(mean) == np.argmax(expected)
    again = np.concatenate([batch for batch, _ in batches(made, seed=1)])
    assert not np.array_equal(images, again), "pictures are cropped and ordered at random"


GIF = b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\4\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"


def test_pictures_of_several_formats_are_read_whatever_their_names(tmp_path: Path) -> None:
    grey = tf.io.encode_png(tf.zeros([20, 30, 1], tf.uint8)).numpy()
    large = tf.io.encode_jpeg(tf.zeros([40, 30, 3], tf.uint8)).numpy()
    pictures = {"a/1.jpg": grey, "a/2.png": grey, "b/3.JPG": large, "b/4.gif": GIF}
    for name, content in pictures.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    ((images, labels),) = feed(str(tmp_path)).first(1)
    assert images.shape == (4, 32, 32, 3)
    assert sorted(map(int, labels)) == [0, 0, 1, 1]


def test_a_picture_that_is_damaged_inside_is_named(tmp_path: Path, made: str) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(made, folder)
    bad = sorted(path for path in folder.rglob("*") if path.is_file())[-1]
    if bad.suffix == ".jpg":
        bad.write_bytes(b"\xff\xd8\xff\xda" + bytes(9) + b"\xff\xd9")
        name = str(bad)
    else:
        cut = tf.io.encode_jpeg(tf.zeros([40, 30, 3], tf.uint8)).numpy()[:200]
        write_records(bad, [example_of(0, cut)])
        name = f"{bad}, record 1"
    find.cache_clear()
    reader = feed(str(folder))
    with pytest.raises(XlaSweepsError) as caught, reader.naming():
        list(reader.epoch())
    assert str(caught.value) == f"data={folder}: {name} cannot be decoded; replace or remove it"


@pytest.mark.parametrize("content", [b"", b"<html>", b"\x89PNG\r\n\x1a\n", GIF[:20]])
def test_a_file_that_is_no_whole_picture_is_named(tmp_path: Path, content: bytes) -> None:
    make_pictures(tmp_path, images=4, classes=2, form="folder")
    bad = tmp_path / "class_001" / "000003.jpg"
    bad.write_bytes(content)
    assert complaint_of(feed(str(tmp_path)).first, 1, kind=XlaSweepsError) == (
        f"data={tmp_path}: {bad} cannot be decoded; replace or remove it"
    )


def test_a_record_that_is_damaged_is_named(tmp_path: Path) -> None:
    make_pictures(tmp_path, images=6, classes=2)
    bad = tmp_path / "pictures-1.tfrecord"
    content = bytearray(bad.read_bytes())
    content[-9] ^= 1
    bad.write_bytes(content)
    reader = feed(str(tmp_path))
    for read in (lambda: reader.first(1), lambda: reader.check_labels(2)):
        assert complaint_of(read, kind=XlaSweepsError) == (
            f"data={tmp_path}: {bad}, record 3 cannot be decoded; replace or remove it"
        )


def test_records_of_another_format_are_read_and_files_without_any_ignored(tmp_path: Path) -> None:
    png = tf.io.encode_png(tf.zeros([20, 30, 1], tf.uint8)).numpy()
    write_records(tmp_path / "a.tfrecord", [])
    write_records(tmp_path / "b.tfrecord", [example_of(label, png) for label in range(4)])
    ((images, labels),) = feed(str(tmp_path)).first(1)
    assert images.shape == (4, 32, 32, 3)
    assert sorted(map(int, labels)) == [0, 1, 2, 3]


def test_a_first_record_with_two_labels_is_named(tmp_path: Path) -> None:
    example = tf.train.Example.FromString(example_of(0, b"x"))
    example.features.feature["image/class/label"].int64_list.value.append(1)
    write_records(tmp_path / "a.tfrecord", [example.SerializeToString()])
    said = complaint_of(partial(feed, str(tmp_path)), kind=XlaSweepsError)
    assert said.endswith("a.tfrecord, record 1 cannot be decoded; replace or remove it")


def test_labels_that_the_head_lacks_are_refused(made: str) -> None:
    feed(made).check_labels(CLASSES)
    assert complaint_of(feed(made).check_labels, 2) == (
        f"data={made}: has labels from 0 to 2, but the model's head has 2 outputs, "
        "for labels from 0 to 1"
    )


def test_records_under_other_names_are_refused_with_the_names(tmp_path: Path) -> None:
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    example = tf.train.Example(features=tf.train.Features(feature={"pixels": feature}))
    write_records(tmp_path / "a.tfrecord", [example.SerializeToString()])
    with pytest.raises(ConfigError, match="its records hold pixels; expected image/encoded and"):
        batches(str(tmp_path))
