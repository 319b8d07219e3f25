"""Architectures of the published study's TensorFlow Hub models, with random weights.

They output logits and are built with KerasHub (ViT, DeiT, Swin) and KerasCV (MLP-Mixer). What these
do not export is imported from `src`, tried on KerasHub 0.32.0 and KerasCV 0.9.0. Sizes are those of
the papers: ViT arXiv:2010.11929, hybrids and small ViTs 2106.10270, DeiT 2012.12877, Swin
2103.14030, Swin-S3 2111.14725, MLP-Mixer 2105.01601.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import keras
from keras import layers, ops

CLASSES = 1000
_SWIN_PATCH = 4

_VIT_HEAD, _SWIN_HEAD = 64, 32
"""Channels of an attention head."""


def build(name: str) -> Any:
    """Build one of the study's models.

    Args:
        name: its name in the catalog, which ends in 384 if its images have that side.

    Returns:
        A Keras model from images of shape (batch, resolution, resolution, 3) in [0, 255] to logits
        of shape (batch, 1000), or to two such heads for distilled DeiT.

    Raises:
        KeyError: no such architecture.
    """
    side = 384 if name.endswith("384") else 224
    images = keras.Input((side, side, 3))
    x = layers.Rescaling(1 / 127.5, offset=-1)(images)
    return keras.Model(images, _ARCHITECTURES[name](x), name=name)


def _vit(
    images: Any,
    *,
    width: int,
    depth: int,
    patch: int = 16,
    resnet: tuple[int, ...] = (),
    distilled: bool = False,
) -> Any:
    """A vision transformer; with `resnet` on the patches of a convolutional stem.

    A distilled DeiT has a second token, and a head for each (arXiv:2012.12877, figure 2).
    """
    from keras_hub.models import DeiTBackbone, ViTBackbone

    x = _resnet(images, resnet) if resnet else images
    inner = {"intermediate_dim" if distilled else "mlp_dim": 4 * width}
    backbone = (DeiTBackbone if distilled else ViTBackbone)(
        image_shape=x.shape[1:],
        patch_size=1 if resnet else patch,
        num_layers=depth,
        num_heads=width // _VIT_HEAD,
        hidden_dim=width,
        **inner,
    )
    tokens, names = backbone(x), ("head", "head_distilled") if distilled else ("head",)
    heads = [layers.Dense(CLASSES, name=name)(tokens[:, at]) for at, name in enumerate(names)]
    return heads if distilled else heads[0]


def _swin(
    images: Any, *, width: int, depths: tuple[int, ...], windows: tuple[int, ...] = (7, 7, 7, 7)
) -> Any:
    """A Swin transformer; windows are per stage, which Swin-S3 varies and KerasHub's does not."""
    from keras_hub.src.models.swin_transformer.swin_transformer_layers import (
        PatchEmbedding,
        PatchMerging,
        SwinTransformerStage,
    )

    x = PatchEmbedding(
        patch_size=_SWIN_PATCH, embed_dim=width, norm_layer=layers.LayerNormalization
    )(images)
    side, last = images.shape[1] // _SWIN_PATCH, len(depths) - 1
    for index, (depth, window) in enumerate(zip(depths, windows, strict=True)):
        x = SwinTransformerStage(
            dim=width * 2**index,
            depth=depth,
            num_heads=width * 2**index // _SWIN_HEAD,
            window_size=window,
            drop_path=[0.0] * depth,
            downsample=None if index == last else PatchMerging,
            input_resolution=(side, side),
            name=f"stage_{index}",
        )(x)
        side //= 2
    x = layers.LayerNormalization(epsilon=1e-5, name="norm")(x)
    return layers.Dense(CLASSES, name="head")(ops.mean(x, axis=list(range(1, len(x.shape) - 1))))


def _mixer(images: Any, *, width: int, depth: int, patch: int, tokens: int) -> Any:
    from keras_cv.src.models.legacy.mlp_mixer import MLPMixer

    return MLPMixer(
        input_shape=images.shape[1:],
        patch_size=patch,
        num_blocks=depth,
        hidden_dim=width,
        tokens_mlp_dim=tokens,
        channels_mlp_dim=4 * width,
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


_TINY: dict[str, Any] = {"width": 192, "depth": 12}
_SMALL: dict[str, Any] = {"width": 384, "depth": 12}
_BASE: dict[str, Any] = {"width": 768, "depth": 12}
_LARGE: dict[str, Any] = {"width": 1024, "depth": 24}

_DEEP = (2, 2, 18, 2)

_OF_12, _S3 = (12, 12, 12, 12), (7, 7, 14, 7)

_ARCHITECTURES: Mapping[str, Callable[[Any], Any]] = {
    "vit_s16": partial(_vit, **_SMALL),
    "vit_b8": partial(_vit, **_BASE, patch=8),
    "vit_b16": partial(_vit, **_BASE),
    "vit_b32": partial(_vit, **_BASE, patch=32),
    "vit_l16": partial(_vit, **_LARGE),
    "vit_r26_s32": partial(_vit, **_SMALL, resnet=(2, 2, 2, 2)),
    "vit_r50_l32": partial(_vit, **_LARGE, resnet=(3, 4, 6, 3)),
    "deit_tiny_patch16_224": partial(_vit, **_TINY),
    "deit_tiny_distilled_patch16_224": partial(_vit, **_TINY, distilled=True),
    "deit_small_patch16_224": partial(_vit, **_SMALL),
    "deit_small_distilled_patch16_224": partial(_vit, **_SMALL, distilled=True),
    "deit_base_patch16_224": partial(_vit, **_BASE),
    "deit_base_distilled_patch16_224": partial(_vit, **_BASE, distilled=True),
    "deit_base_patch16_384": partial(_vit, **_BASE),
    "deit_base_distilled_patch16_384": partial(_vit, **_BASE, distilled=True),
    "swin_tiny_patch4_window7_224": partial(_swin, width=96, depths=(2, 2, 6, 2)),
    "swin_small_patch4_window7_224": partial(_swin, width=96, depths=_DEEP),
    "swin_base_patch4_window7_224": partial(_swin, width=128, depths=_DEEP),
    "swin_base_patch4_window12_384": partial(_swin, width=128, depths=_DEEP, windows=_OF_12),
    "swin_large_patch4_window7_224": partial(_swin, width=192, depths=_DEEP),
    "swin_large_patch4_window12_384": partial(_swin, width=192, depths=_DEEP, windows=_OF_12),
    "swin_s3_tiny_224": partial(_swin, width=96, depths=(2, 2, 6, 2), windows=_S3),
    "swin_s3_small_224": partial(_swin, width=96, depths=_DEEP, windows=(14, 14, 14, 7)),
    "swin_s3_base_224": partial(_swin, width=96, depths=(2, 2, 30, 2), windows=_S3),
    "mixer_b16": partial(_mixer, width=768, depth=12, patch=16, tokens=384),
    "mixer_b32": partial(_mixer, width=768, depth=12, patch=32, tokens=384),
    "mixer_l16": partial(_mixer, width=1024, depth=24, patch=16, tokens=512),
}
