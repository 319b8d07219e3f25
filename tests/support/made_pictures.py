"""Pictures made for a training, and a trial's data of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xla_sweeps.schema.trial import Data
from xla_sweeps.system.pictures import find

_SHARDS = 2
_SQUARE_PX = 8


def make_pictures(
    folder: Path,
    *,
    images: int,
    classes: int,
    form: str = "tfrecord",
    width_px: int = 40,
    height_px: int = 30,
) -> None:
    """Write JPEGs, shared among the classes evenly, as TFRecord files or a folder for each."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    records: list[list[bytes]] = [[] for _ in range(_SHARDS)]
    for number in range(images):
        label = number % classes
        encoded = tf.io.encode_jpeg(_draw(label / classes, width_px, height_px, rng))
        records[number % _SHARDS].append(example_of(label, encoded.numpy()))
        if form == "folder":
            tf.io.write_file(f"{folder}/class_{label:03d}/{number:06d}.jpg", encoded)
    if form == "tfrecord":
        folder.mkdir(exist_ok=True)
        for shard, content in enumerate(records):
            write_records(folder / f"pictures-{shard}.tfrecord", content)


def write_records(path: Path, records: list[bytes]) -> None:
    """Write a TFRecord file."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as file:
        for record in records:
            file.write(record)


def example_of(label: int, encoded: bytes) -> bytes:
    """A record, with the names that ImageNet's have."""
    import tensorflow as tf

    picture = tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded]))
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
    features = {"image/encoded": picture, "image/class/label": number}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return bytes(example.SerializeToString())


def _draw(hue: float, width: int, height: int, rng: np.random.Generator) -> np.ndarray:
    """A picture, uint8 (height, width, 3): lighter and darker squares of one colour."""
    squares = rng.normal(size=(-(-height // _SQUARE_PX), -(-width // _SQUARE_PX), 1))
    light = np.kron(squares, np.ones((_SQUARE_PX, _SQUARE_PX, 1)))[:height, :width]
    colour = 128 + 60 * np.cos(2 * np.pi * (hue + np.arange(3) / 3))
    picture: np.ndarray = np.clip(colour + 45 * light, 0, 255).astype(np.uint8)
    return picture


def data_of(folder: str, *, drop_remainder: bool = False) -> Data:
    """The data of a trial that trains on the pictures of a folder."""
    pictures = find(folder)
    return Data(
        path=folder,
        pictures=pictures.count,
        fingerprint=pictures.fingerprint,
        drop_remainder=drop_remainder,
    )
