"""Draw pictures of some classes and write them as JPEGs, in a process of its own.

The parent's side is `cli.make_data`, which has checked the arguments.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import tensorflow as tf


def main(
    *,
    folder: str,
    form: str,
    images: int,
    classes: int,
    width_px: int,
    height_px: int,
    shards: int,
    seed: int,
) -> None:
    """Write the pictures.

    The arguments are the command's; `folder` is new or empty, and pictures are shared among the
    classes evenly.
    """
    count = min(shards, images) if form == "tfrecord" else 0
    Path(folder).mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    with tf.device("/device:CPU:0"), ExitStack() as stack:
        names = (f"{folder}/pictures-{at:05d}-of-{count:05d}.tfrecord" for at in range(count))
        files = [stack.enter_context(tf.io.TFRecordWriter(name)) for name in names]
        for number in range(images):
            label = number % classes
            picture = draw(label / classes, width_px, height_px, rng)
            data = tf.io.encode_jpeg(picture, quality=90).numpy()
            if files:
                files[number % count].write(_example(label, data))
            else:
                path = Path(folder, f"class_{label:03d}", f"{number:06d}.jpg")
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)


def _example(label: int, data: bytes) -> bytes:
    """A record, with the names that ImageNet's have."""
    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return bytes(example.SerializeToString())


def draw(hue: float, width: int, height: int, rng: np.random.Generator) -> np.ndarray:
    """A picture, uint8 (height, width, 3): noise whose power falls with frequency, as in photos.

    Power falls as 1/f², which holds for natural images (Field, J. Opt. Soc. Am. A 4, 1987), so that
    a JPEG of it is about as large, and takes as long to decode, as that of a photo.
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
    main(**json.loads(sys.argv[1]))
