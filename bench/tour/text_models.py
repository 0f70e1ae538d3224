# SPDX-License-Identifier: Apache-2.0
"""`transformers` that read and write text, in their families' shapes at two layers of 128 to 256 features."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from bench.tour.models import Stop

_VOCABULARY = 1000
_TOKENS = 32
#: Names of the sizes of a family, by what most configurations call them.
_BASE = {
    "vocab_size": _VOCABULARY, "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512,
    "max_position_embeddings": 128,
}  # fmt: skip
_DECODER = {**_BASE, "num_key_value_heads": 2, "use_cache": False, "pad_token_id": 0}
_SEQUENCES = {
    "vocab_size": _VOCABULARY, "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "max_position_embeddings": 128, "use_cache": False,
    "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": 1, "decoder_start_token_id": 1,
}  # fmt: skip


def made(class_name: str, options: dict[str, Any]) -> nn.Module:
    """A model of `transformers` by the name of its class, which knows its configuration's."""
    import transformers

    of = getattr(transformers, class_name)
    return of(of.config_class(**options)).eval()


def tokens(count: int = _TOKENS, rows: int = 2) -> Tensor:
    """Numbers of tokens, none of which stands for padding, an end or a beginning."""
    return torch.randint(5, _VOCABULARY, (rows, count))


def _text(padded: bool = True) -> dict[str, Tensor]:
    given = {"input_ids": tokens()}
    if padded:
        given["attention_mask"] = torch.ones_like(given["input_ids"])
        given["attention_mask"][1, -7:] = 0
    return given


def _pair() -> dict[str, Tensor]:
    return {**_text(), "decoder_input_ids": tokens(12)}


def _stop(name: str, class_name: str, options: dict[str, Any], inputs: Any = _text) -> Stop:
    generator = None
    if class_name.endswith(("ForCausalLM", "LMHeadModel")):
        generator = functools.partial(made, class_name, {**options, "use_cache": True})
    return Stop(name, "transformers", functools.partial(made, class_name, options), inputs, generator)


def _encoder(name: str, class_name: str, **options: Any) -> Stop:
    return _stop(name, class_name, {**_BASE, **options})


def _decoder(name: str, class_name: str, **options: Any) -> Stop:
    return _stop(name, class_name, {**_DECODER, **options}, functools.partial(_text, padded=False))


def _writer(name: str, class_name: str, **options: Any) -> Stop:
    return _stop(name, class_name, {**_SEQUENCES, **options}, _pair)


def _t5(name: str, class_name: str, **options: Any) -> Stop:
    sizes = {"vocab_size": _VOCABULARY, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4}
    return _stop(name, class_name, {**sizes, "use_cache": False, "decoder_start_token_id": 0, **options}, _pair)


_GPT = {"vocab_size": _VOCABULARY, "n_embd": 256, "n_layer": 2, "n_head": 4, "n_positions": 128, "use_cache": False}
_MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128}

_LATENT = {
    "q_lora_rank": 64, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 64, "first_k_dense_replace": 1, "num_key_value_heads": 4, "topk_group": 1, "head_dim": 16,
}  # fmt: skip
_unpadded = functools.partial(_text, padded=False)

#: Families of the second tour, 2026-11-28.
_WIDER = (
    _decoder("mamba2", "Mamba2ForCausalLM", num_heads=8, head_dim=64, state_size=16, n_groups=1, chunk_size=16),
    _stop("rwkv", "RwkvForCausalLM", {
        "vocab_size": _VOCABULARY, "hidden_size": 256, "num_hidden_layers": 2, "attention_hidden_size": 256, "context_length": 64, "use_cache": False,
    }, _unpadded),
    _decoder("falcon_mamba", "FalconMambaForCausalLM", state_size=16),
    _decoder(
        "jamba", "JambaForCausalLM", num_experts=2, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
        use_mamba_kernels=False, mamba_d_state=8,
    ),
    _decoder("recurrent_gemma", "RecurrentGemmaForCausalLM", num_hidden_layers=3, lru_width=256, attention_window_size=16, head_dim=64),
    _decoder(
        "qwen3_next", "Qwen3NextForCausalLM", head_dim=64, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64,
        shared_expert_intermediate_size=64, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=32,
        linear_value_head_dim=32, layer_types=["linear_attention", "full_attention"],
    ),
    _decoder("deepseek_v2", "DeepseekV2ForCausalLM", n_group=1, **_LATENT),
    _decoder("deepseek_v3", "DeepseekV3ForCausalLM", n_group=2, **_LATENT),
    _decoder("glm4", "Glm4ForCausalLM", head_dim=64),
    _decoder("smollm3", "SmolLM3ForCausalLM"),
    _decoder("lfm2", "Lfm2ForCausalLM", layer_types=["conv", "full_attention"], block_ff_dim=512),
    _decoder("olmoe", "OlmoeForCausalLM", num_experts=4, num_experts_per_tok=2),
    _decoder("nemotron", "NemotronForCausalLM"),
    _decoder("exaone4", "Exaone4ForCausalLM", sliding_window=16),
    _decoder("ernie4_5", "Ernie4_5ForCausalLM"),
    _decoder("bitnet", "BitNetForCausalLM"),
    _decoder("persimmon", "PersimmonForCausalLM", num_key_value_heads=4),
    _decoder(
        "llama4_text", "Llama4ForCausalLM", head_dim=64, num_local_experts=2, intermediate_size_mlp=512, attention_chunk_size=16,
    ),
    _decoder(
        "gemma3n_text", "Gemma3nForCausalLM", head_dim=64, hidden_size_per_layer_input=32, vocab_size_per_layer_input=_VOCABULARY,
        laurel_rank=16, altup_num_inputs=2, num_kv_shared_layers=0, layer_types=["sliding_attention", "full_attention"],
        sliding_window=16, activation_sparsity_pattern=[0.0, 0.0],
    ),
    _encoder("longformer", "LongformerModel", attention_window=8, pad_token_id=1),
    _encoder("big_bird", "BigBirdModel", block_size=8, attention_type="original_full"),
    _encoder("big_bird_sparse", "BigBirdModel", block_size=4, num_random_blocks=1, attention_type="block_sparse"),
    _encoder("ibert", "IBertModel"),
    _encoder("rembert", "RemBertModel", input_embedding_size=64, output_embedding_size=64),
    _encoder("roformer", "RoFormerModel", embedding_size=256),
    _encoder("luke", "LukeModel", entity_vocab_size=50, entity_emb_size=32),
    _encoder("layoutlm", "LayoutLMModel"),
    _encoder("yoso", "YosoModel", use_expectation=True),
    _encoder("nomic_bert", "NomicBertModel"),
    _writer("led", "LEDForConditionalGeneration", attention_window=8, max_encoder_position_embeddings=128, max_decoder_position_embeddings=64),
    _writer("blenderbot", "BlenderbotForConditionalGeneration"),
    _writer("fsmt", "FSMTForConditionalGeneration", src_vocab_size=_VOCABULARY, tgt_vocab_size=_VOCABULARY, langs=["en", "de"]),
    _writer("bigbird_pegasus", "BigBirdPegasusForConditionalGeneration", attention_type="original_full"),
    _writer("plbart", "PLBartForConditionalGeneration"),
    _writer("nllb_moe", "NllbMoeForConditionalGeneration", num_experts=2, expert_capacity=32),
    _t5("longt5", "LongT5ForConditionalGeneration", local_radius=7),
    _t5("switch", "SwitchTransformersForConditionalGeneration", num_experts=2, expert_capacity=16),
    _t5("umt5", "UMT5ForConditionalGeneration"),
    _t5("mt5_encoder", "MT5EncoderModel"),
    _stop("perceiver", "PerceiverForMaskedLM", {
        "vocab_size": 262, "num_latents": 32, "d_latents": 64, "d_model": 64, "num_blocks": 1, "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4, "num_cross_attention_heads": 4, "qk_channels": 64, "v_channels": 64, "max_position_embeddings": 64,
    }, lambda: {"inputs": torch.randint(5, 262, (2, 64))}),
)  # fmt: skip

STOPS = (
    _encoder("bert", "BertModel"),
    _encoder("roberta", "RobertaModel"),
    _encoder("xlm_roberta", "XLMRobertaForSequenceClassification"),
    _stop(
        "distilbert",
        "DistilBertModel",
        {"vocab_size": _VOCABULARY, "dim": 256, "n_layers": 2, "n_heads": 4, "hidden_dim": 512},
    ),
    _encoder("albert", "AlbertModel", embedding_size=64),
    _encoder("electra", "ElectraModel", embedding_size=64),
    _encoder(
        "deberta", "DebertaModel", relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=32
    ),
    _encoder("deberta_v2", "DebertaV2Model", relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=16),
    _encoder("mpnet", "MPNetModel"),
    _encoder("mobilebert", "MobileBertModel", embedding_size=64, true_hidden_size=64, intra_bottleneck_size=64),
    _encoder("squeezebert", "SqueezeBertModel", embedding_size=256),
    _encoder("convbert", "ConvBertModel", embedding_size=64),
    _stop(
        "nystromformer",
        "NystromformerModel",
        {
            **_BASE,
            "num_landmarks": 16,
            "segment_means_seq_len": 32,
        },
        functools.partial(_text, padded=False),
    ),
    _stop("fnet", "FNetModel", {**_BASE, "tpu_short_seq_length": 32}, functools.partial(_text, padded=False)),
    _encoder("modernbert", "ModernBertModel", pad_token_id=0, local_attention=16),
    _encoder("esm", "EsmModel", position_embedding_type="rotary", pad_token_id=0, mask_token_id=4),
    _stop(
        "xlnet", "XLNetModel", {"vocab_size": _VOCABULARY, "d_model": 256, "n_layer": 2, "n_head": 4, "d_inner": 512}
    ),
    _stop("gpt2", "GPT2LMHeadModel", _GPT),
    _stop(
        "gpt_neo",
        "GPTNeoForCausalLM",
        {
            "vocab_size": _VOCABULARY,
            "hidden_size": 256,
            "num_layers": 2,
            "num_heads": 4,
            "max_position_embeddings": 128,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 16,
            "use_cache": False,
        },
    ),  # fmt: skip
    _decoder("gpt_neox", "GPTNeoXForCausalLM", num_key_value_heads=4),
    _stop("gptj", "GPTJForCausalLM", {**_GPT, "rotary_dim": 32}),
    _stop("codegen", "CodeGenForCausalLM", {**_GPT, "n_ctx": 128, "rotary_dim": 32}),
    _decoder("opt", "OPTForCausalLM", num_key_value_heads=4, ffn_dim=512, word_embed_proj_dim=256),
    _stop(
        "bloom",
        "BloomForCausalLM",
        {"vocab_size": _VOCABULARY, "hidden_size": 256, "n_layer": 2, "n_head": 4, "use_cache": False},
    ),
    _decoder("llama", "LlamaForCausalLM"),
    _decoder("mistral", "MistralForCausalLM", sliding_window=16),
    _decoder("qwen2", "Qwen2ForCausalLM"),
    _decoder("qwen3", "Qwen3ForCausalLM", head_dim=64),
    _decoder("gemma", "GemmaForCausalLM", head_dim=64),
    _decoder("gemma2", "Gemma2ForCausalLM", head_dim=64, sliding_window=16),
    _decoder("gemma3", "Gemma3ForCausalLM", head_dim=64, sliding_window=16),
    _decoder("phi", "PhiForCausalLM"),
    _decoder("phi3", "Phi3ForCausalLM"),
    _decoder("falcon", "FalconForCausalLM", new_decoder_architecture=True, num_kv_heads=2, num_key_value_heads=4),
    _decoder("stablelm", "StableLmForCausalLM"),
    _decoder("starcoder2", "Starcoder2ForCausalLM"),
    _decoder("olmo2", "Olmo2ForCausalLM"),
    _decoder("granite", "GraniteForCausalLM"),
    _decoder("cohere", "CohereForCausalLM"),
    _decoder("mixtral", "MixtralForCausalLM", num_local_experts=4),
    _decoder("qwen3_moe", "Qwen3MoeForCausalLM", head_dim=64, **_MIXTURE),
    _decoder(
        "gpt_oss", "GptOssForCausalLM", head_dim=64, num_local_experts=4, num_experts_per_tok=2, sliding_window=16
    ),
    _decoder("mamba", "MambaForCausalLM", state_size=16, num_hidden_layers=2),
    _t5("t5", "T5ForConditionalGeneration"),
    _t5("flan_t5_encoder", "T5EncoderModel", feed_forward_proj="gated-gelu"),
    _writer("bart", "BartForConditionalGeneration"),
    _writer("pegasus", "PegasusForConditionalGeneration"),
    _writer("marian", "MarianMTModel"),
    _writer("m2m_100", "M2M100ForConditionalGeneration"),
    *_WIDER,
)
