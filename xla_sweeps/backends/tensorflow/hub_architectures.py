"""Architectures of the published study's TensorFlow Hub models, with random weights.

They output logits and are built from KerasHub's layers (ViT, DeiT, Swin) and KerasCV's (MLP-Mixer),
which neither exports: the imports from `src` were tried on KerasHub 0.32.0 and KerasCV 0.9.0.
Sizes are those of the papers: ViT arXiv:2010.11929, hybrids and small ViTs 2106.10270, DeiT
2012.12877, Swin 2103.14030, Swin-S3 2111.14725, MLP-Mixer 2105.01601.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
from keras import layers, ops

CLASSES = 1000
_SWIN_PATCH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _ViT:
    """A vision transformer.

    `distilled` adds DeiT's second token and head, `resnet` a convolutional stem.
    """

    width: int
    depth: int
    heads: int
    patch: int = 16
    resolution: int = 224
    distilled: bool = False
    resnet: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Swin:
    """A Swin transformer; windows are per stage, which Swin-S3 varies."""

    width: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    windows: tuple[int, ...] = (7, 7, 7, 7)
    resolution: int = 224


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mixer:
    """An MLP-Mixer."""

    width: int
    depth: int
    patch: int
    tokens: int
    resolution: int = 224


_TINY, _SMALL, _BASE, _LARGE = (
    partial(_ViT, width=192, depth=12, heads=3),
    partial(_ViT, width=384, depth=12, heads=6),
    partial(_ViT, width=768, depth=12, heads=12),
    partial(_ViT, width=1024, depth=24, heads=16),
)

_SWIN_HEADS, _SWIN_BASE_HEADS, _SWIN_LARGE_HEADS = (3, 6, 12, 24), (4, 8, 16, 32), (6, 12, 24, 48)
_OF_12, _S3 = (12, 12, 12, 12), (7, 7, 14, 7)

_ARCHITECTURES: Mapping[str, _ViT | _Swin | _Mixer] = {
    "vit_s16": _SMALL(),
    "vit_b8": _BASE(patch=8),
    "vit_b16": _BASE(),
    "vit_b32": _BASE(patch=32),
    "vit_l16": _LARGE(),
    "vit_r26_s32": _SMALL(resnet=(2, 2, 2, 2)),
    "vit_r50_l32": _LARGE(resnet=(3, 4, 6, 3)),
    "deit_tiny_patch16_224": _TINY(),
    "deit_tiny_distilled_patch16_224": _TINY(distilled=True),
    "deit_small_patch16_224": _SMALL(),
    "deit_small_distilled_patch16_224": _SMALL(distilled=True),
    "deit_base_patch16_224": _BASE(),
    "deit_base_distilled_patch16_224": _BASE(distilled=True),
    "deit_base_patch16_384": _BASE(resolution=384),
    "deit_base_distilled_patch16_384": _BASE(resolution=384, distilled=True),
    "swin_tiny_patch4_window7_224": _Swin(width=96, depths=(2, 2, 6, 2), heads=_SWIN_HEADS),
    "swin_small_patch4_window7_224": _Swin(width=96, depths=(2, 2, 18, 2), heads=_SWIN_HEADS),
    "swin_base_patch4_window7_224": _Swin(width=128, depths=(2, 2, 18, 2), heads=_SWIN_BASE_HEADS),
    "swin_base_patch4_window12_384": _Swin(
        width=128, depths=(2, 2, 18, 2), heads=_SWIN_BASE_HEADS, windows=_OF_12, resolution=384
    ),
    "swin_large_patch4_window7_224": _Swin(
        width=192, depths=(2, 2, 18, 2), heads=_SWIN_LARGE_HEADS
    ),
    "swin_large_patch4_window12_384": _Swin(
        width=192, depths=(2, 2, 18, 2), heads=_SWIN_LARGE_HEADS, windows=_OF_12, resolution=384
    ),
    "swin_s3_tiny_224": _Swin(width=96, depths=(2, 2, 6, 2), heads=_SWIN_HEADS, windows=_S3),
    "swin_s3_small_224": _Swin(
        width=96, depths=(2, 2, 18, 2), heads=_SWIN_HEADS, windows=(14, 14, 14, 7)
    ),
    "swin_s3_base_224": _Swin(width=96, depths=(2, 2, 30, 2), heads=_SWIN_HEADS, windows=_S3),
    "mixer_b16": _Mixer(width=768, depth=12, patch=16, tokens=384),
    "mixer_b32": _Mixer(width=768, depth=12, patch=32, tokens=384),
    "mixer_l16": _Mixer(width=1024, depth=24, patch=16, tokens=512),
}


def build(name: str) -> Any:
    """Build one of the study's models.

    Args:
        name: its name in the catalog.

    Returns:
        A Keras model from images of shape (batch, resolution, resolution, 3) in [0, 255] to logits
        of shape (batch, 1000), or to two such heads for distilled DeiT.

    Raises:
        KeyError: no such architecture.
    """
    architecture = _ARCHITECTURES[name]
    images = keras.Input((architecture.resolution, architecture.resolution, 3))
    x = layers.Rescaling(1 / 127.5, offset=-1)(images)
    if isinstance(architecture, _ViT):
        outputs = _vit(x, architecture)
    elif isinstance(architecture, _Swin):
        outputs = _swin(x, architecture)
    else:
        outputs = _mixer(x, architecture)
    return keras.Model(images, outputs, name=name)


def _vit(images: Any, architecture: _ViT) -> Any:
    if architecture.distilled:
        return _distilled(images, architecture)
    from keras_hub.src.models.vit.vit_layers import ViTEncoder, ViTPatchingAndEmbedding

    x, patch = (
        (_resnet(images, architecture.resnet), 1)
        if architecture.resnet
        else (images, architecture.patch)
    )
    embedding = ViTPatchingAndEmbedding(
        image_size=x.shape[1:3],
        patch_size=(patch, patch),
        hidden_dim=architecture.width,
        num_channels=x.shape[-1],
    )
    encoder = ViTEncoder(
        num_layers=architecture.depth,
        num_heads=architecture.heads,
        hidden_dim=architecture.width,
        mlp_dim=4 * architecture.width,
    )
    return layers.Dense(CLASSES, name="head")(encoder(embedding(x))[:, 0])


def _distilled(images: Any, architecture: _ViT) -> list[Any]:
    """DeiT with a distillation token and a head for each of the two tokens.

    arXiv:2012.12877, figure 2.
    """
    from keras_hub.src.models.deit.deit_layers import DeiTEmbeddings, DeiTEncoder

    size = (architecture.resolution, architecture.resolution)
    embedding = DeiTEmbeddings(
        image_size=size,
        patch_size=(architecture.patch, architecture.patch),
        hidden_dim=architecture.width,
    )
    encoder = DeiTEncoder(
        num_layers=architecture.depth,
        num_heads=architecture.heads,
        hidden_dim=architecture.width,
        intermediate_dim=4 * architecture.width,
    )
    tokens, _, _ = encoder(embedding(images))
    return [
        layers.Dense(CLASSES, name=name)(tokens[:, token])
        for token, name in enumerate(("head", "head_distilled"))
    ]


def _swin(images: Any, architecture: _Swin) -> Any:
    from keras_hub.src.models.swin_transformer.swin_transformer_layers import (
        PatchEmbedding,
        PatchMerging,
        SwinTransformerStage,
    )

    x = PatchEmbedding(
        patch_size=_SWIN_PATCH, embed_dim=architecture.width, norm_layer=layers.LayerNormalization
    )(images)
    side, last = architecture.resolution // _SWIN_PATCH, len(architecture.depths) - 1
    for index, (depth, heads, window) in enumerate(
        zip(architecture.depths, architecture.heads, architecture.windows, strict=True)
    ):
        x = SwinTransformerStage(
            dim=architecture.width * 2**index,
            depth=depth,
            num_heads=heads,
            window_size=window,
            drop_path=[0.0] * depth,
            downsample=None if index == last else PatchMerging,
            input_resolution=(side, side),
            name=f"stage_{index}",
        )(x)
        side //= 2
    x = layers.LayerNormalization(epsilon=1e-5, name="norm")(x)
    return layers.Dense(CLASSES, name="head")(ops.mean(x, axis=list(range(1, len(x.shape) - 1))))


def _mixer(images: Any, architecture: _Mixer) -> Any:
    from keras_cv.src.models.legacy.mlp_mixer import MLPMixer

    return MLPMixer(
        input_shape=images.shape[1:],
        patch_size=architecture.patch,
        num_blocks=architecture.depth,
        hidden_dim=architecture.width,
        tokens_mlp_dim=architecture.tokens,
        channels_mlp_dim=4 * architecture.width,
        include_rescaling=False,
        include_top=True,
        num_classes=CLASSES,
        classifier_activation=None,
    )(images)


@keras.saving.register_keras_serializable(package="xla_sweeps")
class StandardizedConv2D(layers.Conv2D):  # type: ignore[misc]
    """A convolution with kernels of mean 0 and variance 1 over their inputs (arXiv:1903.10520)."""

    def convolution_op(self, inputs: Any, kernel: Any) -> Any:
        """Convolve with the standardized kernel."""
        mean, variance = ops.moments(kernel, axes=[0, 1, 2], keepdims=True)
        return super().convolution_op(inputs, (kernel - mean) * ops.rsqrt(variance + 1e-8))


def _resnet(images: Any, stages: tuple[int, ...]) -> Any:
    """The hybrids' stem: a ResNet of BiT's convolutions, group normalized (arXiv:1912.11370)."""
    x = layers.Activation("relu")(_normalized_convolution(images, 64, 7, stride=2))
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    for index, blocks in enumerate(stages):
        for block in range(blocks):
            x = _bottleneck(x, 64 * 2**index, stride=2 if index and not block else 1)
    return x


def _bottleneck(x: Any, width: int, *, stride: int) -> Any:
    shortcut = x
    if stride > 1 or x.shape[-1] != 4 * width:
        shortcut = _normalized_convolution(x, 4 * width, 1, stride=stride)
    y = layers.Activation("relu")(_normalized_convolution(x, width, 1))
    y = layers.Activation("relu")(_normalized_convolution(y, width, 3, stride=stride))
    return layers.Activation("relu")(shortcut + _normalized_convolution(y, 4 * width, 1))


def _normalized_convolution(x: Any, width: int, kernel: int, *, stride: int = 1) -> Any:
    x = StandardizedConv2D(width, kernel, strides=stride, padding="same", use_bias=False)(x)
    return layers.GroupNormalization(groups=32, epsilon=1e-5)(x)
