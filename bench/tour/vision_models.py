# SPDX-License-Identifier: Apache-2.0
"""Models of `torchvision` and `timm`, the smallest of each family at its own image size."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from bench.tour.models import Stop, declare_torchvision_ops, picture


def _torchvision_model(name: str, options: dict[str, Any]) -> nn.Module:
    declare_torchvision_ops()
    import torchvision

    return torchvision.models.get_model(name, weights=None, **options).eval()


def _timm_model(name: str, options: dict[str, Any]) -> nn.Module:
    declare_torchvision_ops()
    import timm

    return timm.create_model(name, pretrained=False, **options).eval()


def _image(size: int) -> tuple[Tensor, ...]:
    return (picture(size),)


def _torchvision(name: str, size: int = 224, **options: Any) -> Stop:
    make = functools.partial(_torchvision_model, name, options)
    return Stop(f"tv_{name}", "torchvision", make, functools.partial(_image, size))


def _timm(name: str, size: int = 224, **options: Any) -> Stop:
    make = functools.partial(_timm_model, name, options)
    return Stop(name, "timm", make, functools.partial(_image, size))


def _video(name: str, frames: int, size: int) -> Stop:
    make = functools.partial(_torchvision_model, name, {})
    return Stop(f"tv_{name}", "torchvision", make, lambda: (torch.randn(1, 3, frames, size, size),))


#: Families of the second tour, 2026-11-28.
_WIDER = (
    _video("mc3_18", 8, 64),
    _video("r2plus1d_18", 8, 64),
    _video("swin3d_t", 8, 64),
    _timm("halonet26t", 256),
    _timm("csatv2"),
    _timm("efficientvit_m0"),
    _timm("starnet_s1"),
    _timm("fasternet_t0"),
    _timm("shvit_s1"),
    _timm("lcnet_050"),
    _timm("mixnet_s"),
    _timm("gcresnet33ts"),
    _timm("tnt_s_patch16_224"),
    _timm("vitamin_small_224"),
    _timm("coatnet_nano_rw_224"),
    _timm("tiny_vit_5m_224"),
    _timm("pvt_v2_b0"),
    _timm("mobileone_s0"),
    _timm("hgnetv2_b0"),
    _timm("selecsls42b"),
    _timm("seresnet18"),
)

#: Families of the third tour, 2026-11-28.
_THIRD = (
    _video("s3d", 16, 224),
    _video("mvit_v1_b", 16, 224),
    _timm("ghostnetv2_100"),
    _timm("naflexvit_base_patch16_gap"),
    _timm("nextvit_small"),
    _timm("haloregnetz_b"),
    _timm("convmixer_768_32"),
    _timm("convnext_atto"),
    _timm("cpubone_nano"),
    _timm("cs3darknet_s"),
    _timm("cspnext_tiny"),
    _timm("deit3_small_patch16_224"),
    _timm("densenetblur121d"),
    _timm("dpn48b"),
    _timm("efficientformer_l1"),
    _timm("efficientvim_m1"),
    _timm("hardcorenas_a"),
    _timm("hieradet_small"),
    _timm("iformer_h"),
    _timm("inception_resnet_v2", 299),
    _timm("inception_v4", 299),
    _timm("lowformer_b0"),
    _timm("mobilenetv5_base"),
)

_NO_BACKBONE = {"weights_backbone": None}

STOPS = (
    _torchvision("alexnet"),
    _torchvision("resnet18"),
    _torchvision("resnet50"),
    _torchvision("resnext50_32x4d"),
    _torchvision("regnet_y_400mf"),
    _torchvision("efficientnet_b0"),
    _torchvision("mobilenet_v2"),
    _torchvision("mobilenet_v3_small"),
    _torchvision("densenet121"),
    _torchvision("convnext_tiny"),
    _torchvision("swin_t"),
    _torchvision("swin_v2_t", 256),
    _torchvision("vit_b_32"),
    _torchvision("maxvit_t"),
    _torchvision("shufflenet_v2_x1_0"),
    _torchvision("squeezenet1_1"),
    _torchvision("mnasnet0_5"),
    _torchvision("googlenet", init_weights=False),
    _torchvision("inception_v3", 299, init_weights=False),
    _torchvision("lraspp_mobilenet_v3_large", **_NO_BACKBONE),
    _torchvision("deeplabv3_mobilenet_v3_large", **_NO_BACKBONE),
    Stop("tv_r3d_18", "torchvision", functools.partial(_torchvision_model, "r3d_18", {}), lambda: (torch.randn(1, 3, 8, 64, 64),)),
    Stop(
        "tv_raft_small", "torchvision", functools.partial(_torchvision_model, "raft_small", {}),
        lambda: (picture(128), picture(128)),
    ),
    _timm("mixer_s32_224"),
    _timm("resmlp_12_224"),
    _timm("gmlp_ti16_224"),
    _timm("coat_lite_tiny"),
    _timm("levit_128s"),
    _timm("edgenext_xx_small"),
    _timm("ghostnet_100"),
    _timm("tinynet_e", 106),
    _timm("rexnet_100"),
    _timm("mobilevit_xxs", 256),
    _timm("mobilevitv2_050", 256),
    _timm("mobilenetv4_conv_small"),
    _timm("repvgg_a0"),
    _timm("efficientvit_b0"),
    _timm("efficientformerv2_s0"),
    _timm("fastvit_t8", 256),
    _timm("poolformer_s12"),
    _timm("pit_ti_224"),
    _timm("twins_pcpvt_small"),
    _timm("xcit_nano_12_p16_224"),
    _timm("cait_xxs24_224"),
    _timm("crossvit_tiny_240", 240),
    _timm("convit_tiny"),
    _timm("volo_d1_224"),
    _timm("nest_tiny"),
    _timm("hrnet_w18_small"),
    _timm("res2net50_26w_4s"),
    _timm("dla34"),
    _timm("skresnet18"),
    _timm("resnest14d"),
    _timm("eca_nfnet_l0"),
    _timm("focalnet_tiny_srf"),
    _timm("mvitv2_tiny"),
    _timm("hiera_tiny_224"),
    _timm("eva02_tiny_patch14_224"),
    _timm("davit_tiny"),
    _timm("mambaout_femto"),
    _timm("repvit_m0_9"),
    _timm("gcvit_xxtiny"),
    _timm("sequencer2d_s"),
    _timm("lambda_resnet26t", 256),
    _timm("botnet26t_256", 256),
    _timm("swiftformer_xs"),
    _timm("inception_next_atto"),
    *_WIDER,
    *_THIRD,
)  # fmt: skip
