"""Pictures made for a training, and a trial's data of them."""

from __future__ import annotations

from pathlib import Path

from xla_sweeps.backends.tensorflow import make_data
from xla_sweeps.schema.trial import Data
from xla_sweeps.system.pictures import find


def make_pictures(
    folder: Path,
    *,
    images: int,
    classes: int,
    form: str = "tfrecord",
    width_px: int = 40,
    height_px: int = 30,
) -> None:
    """Make pictures as `make-data` does."""
    make_data.main(
        folder=str(folder),
        form=form,
        images=images,
        classes=classes,
        width_px=width_px,
        height_px=height_px,
        shards=2,
        seed=0,
    )


def data_of(folder: str, *, drop_remainder: bool = False) -> Data:
    """The data of a trial that trains on the pictures of a folder."""
    pictures = find(folder)
    return Data(
        path=folder,
        pictures=pictures.count,
        fingerprint=pictures.fingerprint,
        drop_remainder=drop_remainder,
    )
