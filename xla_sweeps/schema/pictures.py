"""A set of pictures to make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["tfrecord", "folder"]
"""Files of many pictures, or a folder for each class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSet:
    """A set of pictures to make.

    Attributes:
        folder: where; new or empty.
        form: how they are kept.
        images: how many pictures.
        classes: how many classes; pictures are shared among them evenly.
        width_px: of each picture, pixels; `height_px` likewise.
        shards: TFRecord files.
        seed: of what is drawn.
    """

    folder: str
    form: Form = "tfrecord"
    images: int = 512
    classes: int = 10
    width_px: int = 400
    height_px: int = 350
    shards: int = 4
    seed: int = 0
