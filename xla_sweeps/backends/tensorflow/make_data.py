"""Draw pictures of some classes and write them as JPEGs, in a process of its own.

The parent's side is `cli.make_data`, which has checked the arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
import tensorflow as tf

from xla_sweeps.schema.pictures import PictureSet

QUALITY = 90


def main(wanted: PictureSet) -> None:
    """Write the pictures; a line on standard output for each that is written."""
    folder = Path(wanted.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tf.device("/device:CPU:0"), ExitStack() as stack:
        files = [
            stack.enter_context(tf.io.TFRecordWriter(str(folder / name)))
            for name in _shards(wanted)
        ]
        for number, (label, data) in enumerate(_drawn(wanted)):
            if files:
                files[number % len(files)].write(_example(label, data))
            else:
                path = folder / f"class_{label:03d}" / f"{number:06d}.jpg"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
            print(number + 1, flush=True)


def _shards(wanted: PictureSet) -> list[str]:
    """Names of the TFRecord files; none for a folder of classes."""
    count = min(wanted.shards, wanted.images) if wanted.form == "tfrecord" else 0
    return [f"pictures-{number:05d}-of-{count:05d}.tfrecord" for number in range(count)]


def _example(label: int, data: bytes) -> bytes:
    """A record, with the names that ImageNet's have."""
    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return bytes(example.SerializeToString())


def _drawn(wanted: PictureSet) -> Iterator[tuple[int, bytes]]:
    """Class and JPEG of each picture."""
    rng = np.random.default_rng(wanted.seed)
    for number in range(wanted.images):
        label = number % wanted.classes
        picture = draw(label / wanted.classes, wanted.width_px, wanted.height_px, rng)
        yield label, tf.io.encode_jpeg(picture, quality=QUALITY).numpy()


def draw(hue: float, width: int, height: int, rng: np.random.Generator) -> np.ndarray:
    """A picture, uint8 (height, width, 3): noise whose power falls with frequency, as in photos.

    Power falls as 1/f², which holds for natural images (Field, J. Opt. Soc. Am. A 4, 1987), so that
    a JPEG of it is about as large, and takes as long to decode, as that of a photo.

    Args:
        hue: of the class, from 0 to 1; the mean colour.
        width: pixels.
        height: pixels.
        rng: draws the noise.
    """
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1.0
    spectrum = rng.normal(size=(3, *frequency.shape)) * np.exp(
        2j * np.pi * rng.uniform(size=(3, *frequency.shape))
    )
    noise = np.fft.irfft2(spectrum / frequency, s=(height, width))
    noise /= noise.std(axis=(1, 2), keepdims=True)
    mean = 128 + 60 * np.cos(2 * np.pi * (hue + np.arange(3) / 3))
    picture = mean[:, None, None] + 45 * noise
    return np.clip(picture, 0, 255).astype(np.uint8).transpose(1, 2, 0)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.stdin.buffer.read(), type=PictureSet))
