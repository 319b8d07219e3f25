"""Pictures that were made here, read as a training reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xla_sweeps.backends.tensorflow import make_data
from xla_sweeps.backends.tensorflow.pictures import check_labels, pipeline
from xla_sweeps.errors import ConfigError
from xla_sweeps.system.pictures import Pictures, find

pytestmark = pytest.mark.tf

IMAGES, CLASSES = 10, 3


@pytest.fixture(scope="module", params=["tfrecord", "folder"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    folder = tmp_path_factory.mktemp(request.param)
    make_data.main(
        folder=str(folder),
        form=request.param,
        images=IMAGES,
        classes=CLASSES,
        width_px=80,
        height_px=60,
        shards=2,
        seed=0,
    )
    return find(str(folder))


def batches(made: Pictures, **options: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    chosen = {"batch_size": 4, "side": 32, "seed": 0, "drop_remainder": False, **options}
    return list(pipeline(made, **chosen).as_numpy_iterator())


def test_an_epoch_holds_each_picture_once_and_its_last_batch_is_smaller(made: Pictures) -> None:
    assert made.count == IMAGES
    epoch = batches(made)
    assert [images.shape for images, _ in epoch] == [(4, 32, 32, 3), (4, 32, 32, 3), (2, 32, 32, 3)]
    labels = sorted(int(label) for _, some in epoch for label in some)
    assert labels == sorted(number % CLASSES for number in range(IMAGES))
    assert [len(labels) for _, labels in batches(made, drop_remainder=True)] == [4, 4]


def test_pictures_have_the_colour_of_their_class_and_are_not_alike(made: Pictures) -> None:
    images, labels = (np.concatenate(items) for items in zip(*batches(made), strict=True))
    assert images.dtype == np.float32
    assert 0 <= images.min() < 60 < 190 < images.max() <= 255
    means = {label: images[labels == label].mean(axis=(0, 1, 2)) for label in range(CLASSES)}
    for label, mean in means.items():
        expected = 128 + 60 * np.cos(2 * np.pi * (label / CLASSES + np.arange(3) / 3))
        assert np.argmax(mean) == np.argmax(expected)
    again = np.concatenate([batch for batch, _ in batches(made, seed=1)])
    assert not np.array_equal(images, again), "pictures are cropped and ordered at random"


def test_labels_that_the_head_lacks_are_refused(made: Pictures) -> None:
    check_labels(made, classes=CLASSES, path="DIR")
    with pytest.raises(ConfigError) as caught:
        check_labels(made, classes=2, path="DIR")
    assert str(caught.value) == (
        "data=DIR: has labels from 0 to 2, but the model's head has 2 outputs, "
        "for labels from 0 to 1"
    )


def test_records_under_other_names_are_refused_with_the_names(tmp_path: Path) -> None:
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    example = tf.train.Example(features=tf.train.Features(feature={"pixels": feature}))
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as file:
        file.write(example.SerializeToString())
    with pytest.raises(ConfigError, match="its records hold pixels; expected image/encoded and"):
        batches(find(str(tmp_path)))
