# SPDX-License-Identifier: Apache-2.0
"""`transformers` that see, hear, or do both."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from bench.tour.models import Stop, picture
from bench.tour.text_models import made, tokens

_SEEING = {
    "hidden_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 384,
    "image_size": 112,
}
_HEARING = {
    "vocab_size": 32, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
    "conv_dim": (64, 64, 64, 64), "conv_stride": (5, 4, 4, 2), "conv_kernel": (10, 8, 4, 2), "num_feat_extract_layers": 4,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip


def _image(size: int = 112, rows: int = 1) -> dict[str, Tensor]:
    return {"pixel_values": picture(size, rows)}


def _wave() -> dict[str, Tensor]:
    return {"input_values": torch.randn(1, 8000)}


def _stop(name: str, class_name: str, options: dict[str, Any], inputs: Any) -> Stop:
    return Stop(name, "transformers", functools.partial(made, class_name, options), inputs)


def _seer(name: str, class_name: str, **options: Any) -> Stop:
    return _stop(name, class_name, {**_SEEING, **options}, _image)


def _hearer(name: str, class_name: str, **options: Any) -> Stop:
    return _stop(name, class_name, {**_HEARING, **options}, _wave)


def _whisper() -> nn.Module:
    sizes = {
        "vocab_size": 500, "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "max_source_positions": 200, "use_cache": False,
        "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": 1, "decoder_start_token_id": 1, "suppress_tokens": None,
    }  # fmt: skip
    return made("WhisperForConditionalGeneration", sizes)


def _two(name: str, class_name: str, projection: dict[str, Any]) -> Stop:
    """A model of text and images."""
    text = {
        "vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
        "max_position_embeddings": 16, "eos_token_id": 2, "projection_dim": 64, "projection_size": _SEEING["hidden_size"],
    }  # fmt: skip
    image = {**_SEEING, "patch_size": 16, "projection_dim": 64}
    options = {"text_config": text, "vision_config": image, **projection}
    return _stop(name, class_name, options, lambda: {"input_ids": tokens(16), **_image(rows=2)})


def _detr() -> nn.Module:
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1], out_features=["stage4"]
    )
    sizes = {
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
        "num_queries": 20,
    }
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    config = transformers.DetrConfig(use_timm_backbone=False, backbone_config=backbone, backbone=None, **sizes, **heads)
    return transformers.DetrForObjectDetection(config).eval()


def _video(name: str, class_name: str, **options: Any) -> Stop:
    return _stop(
        name,
        class_name,
        {**_SEEING, "num_frames": 4, **options},
        lambda: {"pixel_values": torch.randn(1, 4, 3, 112, 112)},
    )


#: Families of the second tour, 2026-11-28.
_WIDER = (
    _stop("hiera", "HieraModel", {"embed_dim": 24, "image_size": [224, 224], "depths": [1, 1, 2, 1]}, functools.partial(_image, 224)),
    _stop("levit", "LevitModel", {
        "image_size": 112, "hidden_sizes": [64, 96, 128], "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1], "key_dim": [16, 16, 16],
    }, _image),
    _stop("swinv2", "Swinv2Model", {"image_size": 128, "embed_dim": 48, "depths": [2, 2], "num_heads": [3, 6], "window_size": 8}, functools.partial(_image, 128)),
    _stop("focalnet", "FocalNetModel", {
        "embed_dim": 32, "depths": [1, 1], "image_size": 112, "focal_levels": [2, 2], "focal_windows": [3, 3], "hidden_sizes": [32, 64],
    }, _image),
    _stop("efficientnet", "EfficientNetModel", {"image_size": 112}, _image),
    _stop("regnet", "RegNetModel", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "groups_width": 8, "embedding_size": 16}, _image),
    _stop("mobilenet_v1", "MobileNetV1Model", {"image_size": 112}, _image),
    _seer("vit_mae", "ViTMAEModel", mask_ratio=0.0),
    _seer("dinov3", "DINOv3ViTModel", patch_size=16),
    _stop("depth_anything", "DepthAnythingForDepthEstimation", {
        "neck_hidden_sizes": [16, 32, 48, 64], "fusion_hidden_size": 32, "reassemble_hidden_size": 384,
    }, _image),
    _stop("swin2sr", "Swin2SRForImageSuperResolution", {
        "image_size": 32, "embed_dim": 48, "depths": [2, 2], "num_heads": [3, 3], "window_size": 8,
    }, functools.partial(_image, 32)),
    _stop("superpoint", "SuperPointForKeypointDetection", {
        "encoder_hidden_sizes": [16, 16, 32, 32], "decoder_hidden_size": 32, "descriptor_decoder_dim": 32, "keypoint_decoder_dim": 65,
    }, functools.partial(_image, 64)),
    _video("videomae", "VideoMAEModel", patch_size=16),
    _video("timesformer", "TimesformerModel", patch_size=16),
    _video("vivit", "VivitModel"),
    _two("owlvit", "OwlViTModel", {"projection_dim": 64}),
    _two("clipseg", "CLIPSegModel", {"projection_dim": 64}),
    _two("blip", "BlipModel", {"projection_dim": 64}),
    _two("chinese_clip", "ChineseCLIPModel", {"projection_dim": 64}),
    _stop("groupvit_vision", "GroupViTVisionModel", {
        **_SEEING, "depths": [2, 1, 1], "num_group_tokens": [16, 4, 0], "num_output_groups": [16, 4, 0], "hidden_size": 96,
        "intermediate_size": 192,
    }, _image),
    _hearer("unispeech", "UniSpeechModel"),
    _hearer("data2vec_audio", "Data2VecAudioModel"),
    _hearer("sew", "SEWModel", squeeze_factor=2),
    _hearer("wav2vec2_conformer", "Wav2Vec2ConformerModel", position_embeddings_type="relative"),
    _stop("dac", "DacModel", {
        "encoder_hidden_size": 16, "decoder_hidden_size": 64, "downsampling_ratios": [2, 4], "upsampling_ratios": [4, 2], "codebook_size": 64,
        "n_codebooks": 2,
    }, lambda: {"input_values": torch.randn(1, 1, 1600)}),
    _stop("hifigan", "SpeechT5HifiGan", {"model_in_dim": 40, "upsample_initial_channel": 64}, lambda: {"spectrogram": torch.randn(20, 40)}),
    _stop("musicgen_decoder", "MusicgenForCausalLM", {
        "vocab_size": 64, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 256, "num_codebooks": 2,
        "use_cache": False, "max_position_embeddings": 64,
    }, lambda: {"input_ids": torch.randint(0, 64, (4, 16))}),
    _stop("clap_audio", "ClapAudioModel", {
        "patch_embeds_hidden_size": 24, "hidden_size": 96, "depths": [1, 1], "num_attention_heads": [2, 4], "spec_size": 64, "num_mel_bins": 16,
        "patch_embed_input_channels": 1, "num_hidden_layers": 2, "window_size": 4, "patch_stride": [4, 4],
    }, lambda: {"input_features": torch.randn(1, 1, 64, 16)}),
)  # fmt: skip

STOPS = (
    _seer("vit", "ViTForImageClassification"),
    _seer("deit", "DeiTForImageClassification"),
    _seer("beit", "BeitForImageClassification", use_relative_position_bias=True, use_mask_token=False),
    _seer("dinov2", "Dinov2Model", patch_size=14, mlp_ratio=2),
    _seer("yolos", "YolosForObjectDetection", image_size=[112, 112], num_detection_tokens=10),
    _seer("ijepa", "IJepaModel"),
    _stop("swin", "SwinModel", {"image_size": 112, "embed_dim": 48, "depths": [2, 2], "num_heads": [3, 6], "window_size": 7}, _image),
    _stop("convnext", "ConvNextModel", {"hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 2, 1]}, _image),
    _stop("segformer", "SegformerForSemanticSegmentation", {"hidden_sizes": [16, 32, 64, 96], "depths": [1, 1, 1, 1]}, _image),
    _stop("mobilevit", "MobileViTModel", {"image_size": 128, "hidden_sizes": [48, 64, 80]}, functools.partial(_image, 128)),
    _stop("poolformer", "PoolFormerModel", {"hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 2, 1]}, _image),
    _stop("dpt", "DPTForDepthEstimation", {
        **_SEEING, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [16, 32, 64, 64], "fusion_hidden_size": 32,
    }, _image),
    Stop("detr", "transformers", _detr, _image),
    _two("clip", "CLIPModel", {"projection_dim": 64}),
    _two("siglip", "SiglipModel", {}),
    Stop("whisper", "transformers", _whisper, lambda: {
        "input_features": torch.randn(1, 80, 400), "decoder_input_ids": torch.randint(5, 500, (1, 8)),
    }),
    _hearer("wav2vec2", "Wav2Vec2ForCTC"),
    _hearer("hubert", "HubertModel"),
    _hearer("wavlm", "WavLMModel"),
    _stop("ast", "ASTModel", {
        "hidden_size": 192, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 384, "max_length": 128,
    }, lambda: {"input_values": torch.randn(1, 128, 128)}),
    _stop("vits", "VitsModel", {
        "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "ffn_dim": 128, "flow_size": 64, "spectrogram_bins": 65,
        "upsample_initial_channel": 64, "wavenet_dilation_rate": 1, "prior_encoder_num_flows": 2, "duration_predictor_num_flows": 2,
    }, lambda: {"input_ids": torch.randint(1, 64, (1, 20))}),
    _stop("patchtst", "PatchTSTForPrediction", {
        "num_input_channels": 3, "context_length": 96, "prediction_length": 24, "d_model": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        "patch_length": 8, "patch_stride": 8,
    }, lambda: {"past_values": torch.randn(2, 96, 3)}),
    *_WIDER,
)  # fmt: skip
