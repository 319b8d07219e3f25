"""The input pipeline of training on real pictures: read, decode, augment, batch, prefetch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.trial import InputSpec, Trial
from xla_sweeps.system.pictures import Pictures, check_taken, find

SHUFFLED = 1024
"""Pictures among which the next one is drawn."""

READ_AT_ONCE = 8
"""TFRecord files."""

LABELS_READ = 10_000
"""At most so many labels are compared with the head before training."""

SMALLEST_CROP = 0.08
"""Share of a picture that a random crop covers at least, as in the training of Inception."""

_JPEG = b"\xff\xd8\xff"

_UNREADABLE = (tf.errors.InvalidArgumentError, tf.errors.DataLossError)

_NAMES = (("image/encoded", "image/class/label"), ("image", "label"))
"""Names under which records hold a picture and its class."""


class Feed:
    """The batches of a trial that trains on pictures, as its model takes them.

    Attributes:
        fixed_size: whether every batch has the size that was asked for.
        last: pictures of the last batch of an epoch if it is smaller, else 0.
    """

    def __init__(self, trial: Trial, inputs: Sequence[InputSpec]) -> None:
        """Find the pictures again.

        Raises:
            ConfigError: they have changed, or the model does not take pictures.
        """
        assert trial.training
        assert trial.training.data
        self._data, self._trial = trial.training.data, trial
        self._pictures = find(self._data.path)
        if self._pictures.fingerprint != self._data.fingerprint:
            raise ConfigError(f"data={self._data.path}: changed since the trial was asked for")
        check_taken(trial.model.name, [each.shape for each in inputs], path=self._data.path)
        self._input = inputs[0]
        self.fixed_size = self._data.drop_remainder
        self.last = trial.samples % trial.batch_size
        with self.naming(), tf.device("/device:CPU:0"):
            self._all_jpeg = _are_jpegs(self._pictures)

    def epoch(self) -> Any:
        """The batches of one call: tuples of images and labels."""
        count = self._trial.batches
        batches = self._batches(drop_remainder=self.fixed_size).take(count)
        # Keras warns where an epoch ends before it expects that; records do not say how many.
        return batches.apply(tf.data.experimental.assert_cardinality(count))

    def first(self, count: int) -> list[Any]:
        """Return the first `count` batches, of full size, in the host's memory."""
        with self.naming():
            return list(self._batches(drop_remainder=True).repeat().take(count))

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Name the first picture that cannot be decoded, if that ends what is inside.

        Raises:
            XlaSweepsError: names the file, or the record.
        """
        try:
            yield
        except _UNREADABLE as error:
            with tf.device("/device:CPU:0"):
                bad = _undecodable(self._pictures)
            if not bad:
                raise
            raise XlaSweepsError(
                f"data={self._data.path}: {bad} cannot be decoded; replace or remove it"
            ) from error

    def check_labels(self, classes: int) -> None:
        """Refuse labels that a head with so many outputs does not have.

        Of TFRecord files the first `LABELS_READ` are looked at.

        Raises:
            ConfigError: a label is below 0, or not below `classes`.
        """
        labels: Any = self._pictures.labels
        if self._pictures.form == "tfrecord":
            records = _from_records(self._pictures, encoded=False).take(LABELS_READ)
            with self.naming():
                labels = [int(label) for label in records.as_numpy_iterator()]
        least, most = min(labels), max(labels)
        if least < 0 or most >= classes:
            raise ConfigError(
                f"data={self._data.path}: has labels from {least} to {most}, but the model's head "
                f"has {classes} outputs, for labels from 0 to {classes - 1}"
            )

    def _batches(self, *, drop_remainder: bool) -> Any:
        """One epoch as batches: (batch, side, side, 3), and the classes, int32 (batch,).

        Pictures are shuffled, decoded, cropped at random to between 8 and 100 % of their area,
        resized, flipped at random, batched and prefetched, with as many threads as tf.data chooses.

        Raises:
            ConfigError: the records hold no picture under a name that is known.
        """
        given, pictures = self._input, self._pictures
        options = tf.data.Options()
        options.deterministic = False

        def take(data: Any, label: Any) -> tuple[Any, Any]:
            image = _augment(data, given.shape[0], all_jpeg=self._all_jpeg)
            scaled = given.low + image * ((given.high - given.low) / 255)
            return tf.cast(scaled, given.dtype), tf.cast(label, tf.int32)

        with tf.device("/device:CPU:0"):
            in_folder = pictures.form == "folder"
            encoded = _from_files(pictures) if in_folder else _from_records(pictures)
            return (
                encoded.with_options(options)
                .shuffle(SHUFFLED, seed=self._trial.seed)
                .map(take, num_parallel_calls=tf.data.AUTOTUNE)
                .batch(self._trial.batch_size, drop_remainder=drop_remainder)
                .prefetch(tf.data.AUTOTUNE)
            )


def _from_files(pictures: Pictures) -> Any:
    order = tf.data.Dataset.from_tensor_slices(
        (list(pictures.files), tf.constant(pictures.labels, tf.int64))
    ).shuffle(len(pictures.files), seed=0)
    return order.map(
        lambda name, label: (tf.io.read_file(name), label), num_parallel_calls=tf.data.AUTOTUNE
    )


def _from_records(pictures: Pictures, *, encoded: bool = True) -> Any:
    at_once = min(READ_AT_ONCE, len(pictures.files))
    records = tf.data.TFRecordDataset(list(pictures.files), num_parallel_reads=at_once)
    parse = _parser(pictures, encoded=encoded)
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def _parser(pictures: Pictures, *, encoded: bool = True) -> Callable[[Any], Any]:
    """Reads a picture and its class out of a record, or the class alone."""
    picture, label = _names(pictures.files)
    features = {label: tf.io.FixedLenFeature([], tf.int64)}
    if encoded:
        features[picture] = tf.io.FixedLenFeature([], tf.string)

    def parse(record: Any) -> Any:
        values = tf.io.parse_single_example(record, features)
        return (values[picture], values[label]) if encoded else values[label]

    return parse


def _names(files: Sequence[str]) -> tuple[str, str]:
    """Under which names the first record holds the picture and its class."""
    file = next(name for name in files if Path(name).stat().st_size)
    try:
        (record,) = tf.data.TFRecordDataset(file).take(1).as_numpy_iterator()
        names = set(tf.train.Example.FromString(record).features.feature)
    except Exception as error:
        raise ConfigError(f"data: {file}: record 1 is no tf.train.Example") from error
    for pair in _NAMES:
        if names.issuperset(pair):
            return pair
    raise ConfigError(
        f"data: {file}: its records hold {', '.join(sorted(names)) or 'nothing'}; expected "
        f"{', or '.join(map(' and '.join, _NAMES))}"
    )


def _are_jpegs(pictures: Pictures) -> bool:
    """True if all are JPEGs, whatever their names say; of records the first one is looked at."""
    if pictures.form == "tfrecord":
        ((data, _),) = _from_records(pictures).take(1)
        return bool(tf.io.is_jpeg(data))
    return all(map(_begins_as_jpeg, pictures.files))


def _begins_as_jpeg(file: str) -> bool:
    try:
        with Path(file).open("rb") as handle:
            return handle.read(len(_JPEG)) == _JPEG
    except OSError as error:
        raise ConfigError(f"data: {file}: {error.strerror}") from error


def _augment(data: Any, side: int, *, all_jpeg: bool) -> Any:
    """A random part of a picture, flipped or not, as float32 (side, side, 3).

    Only JPEGs can be cropped while they are decoded. Of an animation the first frame counts.
    """
    whole = None if all_jpeg else _decode(data)
    box = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(data) if whole is None else tf.shape(whole),
        bounding_boxes=tf.zeros([1, 0, 4]),
        area_range=(SMALLEST_CROP, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        use_image_if_no_bounding_boxes=True,
    )
    if whole is None:
        y, x, _ = tf.unstack(box.begin)
        height, width, _ = tf.unstack(box.size)
        picture = tf.io.decode_and_crop_jpeg(data, tf.stack([y, x, height, width]), channels=3)
    else:
        picture = tf.slice(whole, box.begin, box.size)
    picture = tf.image.resize(picture, [side, side])
    picture = tf.image.random_flip_left_right(picture)
    return tf.ensure_shape(picture, [side, side, 3])


def _decode(data: Any) -> Any:
    picture = tf.io.decode_image(data, channels=3, expand_animations=False)
    return tf.ensure_shape(picture, [None, None, 3])


def _undecodable(pictures: Pictures) -> str:
    """The first picture that cannot be decoded, or ""."""
    if pictures.form == "folder":
        files = tf.data.Dataset.from_tensor_slices(list(pictures.files))
        bad = _find_undecodable(files.map(tf.io.read_file))
        return "" if bad is None else pictures.files[bad]
    parse = _parser(pictures)
    for file in pictures.files:
        records = tf.data.TFRecordDataset(file)
        bad = _find_undecodable(records.map(lambda record: parse(record)[0]))
        if bad is not None:
            return f"{file}, record {bad + 1:,}"
    return ""


def _find_undecodable(encoded: Any) -> int | None:
    """The place of the first picture that cannot be read or decoded; None if all can."""
    place = 0
    try:
        for _ in encoded.map(_decode, num_parallel_calls=tf.data.AUTOTUNE):
            place += 1
    except _UNREADABLE:
        return place
    return None
