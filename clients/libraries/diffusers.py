"""diffusers: its schedulers, its networks and autoencoders small and with the same weights, pipelines, training, files."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["DIFFUSERS_VERBOSITY"] = "error"

import diffusers
import numpy as np
import torch
import transformers
from harness import Client, draws, fill, integers, normal

client = Client("diffusers", "transformers")

SCHEDULERS = {
    "DDPMScheduler": {},
    "DDPMScheduler of cosines": {
        "beta_schedule": "squaredcos_cap_v2",
        "prediction_type": "v_prediction",
        "thresholding": True,
    },
    "DDPMParallelScheduler": {"variance_type": "fixed_large"},
    "DDIMScheduler": {},
    "DDIMScheduler to zero": {
        "rescale_betas_zero_snr": True,
        "prediction_type": "v_prediction",
        "timestep_spacing": "trailing",
    },
    "DDIMInverseScheduler": {},
    "DDIMParallelScheduler": {},
    "DEISMultistepScheduler": {},
    "DPMSolverMultistepScheduler": {"use_karras_sigmas": True},
    "DPMSolverMultistepScheduler with noise": {"algorithm_type": "sde-dpmsolver++"},
    "DPMSolverMultistepScheduler third": {"solver_order": 3, "lower_order_final": True},
    "DPMSolverMultistepInverseScheduler": {},
    "DPMSolverSinglestepScheduler": {},
    "EDMDPMSolverMultistepScheduler": {},
    "EDMEulerScheduler": {},
    "EulerAncestralDiscreteScheduler": {},
    "EulerDiscreteScheduler": {"use_exponential_sigmas": True},
    "FlowMatchEulerDiscreteScheduler": {"shift": 3.0},
    "FlowMatchHeunDiscreteScheduler": {},
    "HeunDiscreteScheduler": {"use_karras_sigmas": True},
    "IPNDMScheduler": {},
    "KDPM2AncestralDiscreteScheduler": {},
    "KDPM2DiscreteScheduler": {},
    "LCMScheduler": {},
    "LMSDiscreteScheduler": {},
    "PNDMScheduler": {},
    "PNDMScheduler without Runge and Kutta": {"skip_prk_steps": True},
    "SASolverScheduler": {},
    "TCDScheduler": {},
    "UniPCMultistepScheduler": {},
    "CogVideoXDDIMScheduler": {},
    "CMStochasticIterativeScheduler": {},
    "SCMScheduler": {},
}


def scheduled(name):
    """Steps from given noise with a model that is a formula; what is said about noise and sizes."""
    scheduler = getattr(diffusers, name.partition(" ")[0])(**SCHEDULERS[name])
    with draws():
        scheduler.set_timesteps(2 if name == "SCMScheduler" else 6)
        x = normal(1, 3, 6, 6) * float(getattr(scheduler, "init_noise_sigma", 1.0))
        seen = []
        for t in scheduler.timesteps:
            given = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
            out = 0.3 * given + 0.1 * torch.sin(given * 3)
            x = scheduler.step(out, t, x, return_dict=False)[0]
            seen.append(x.norm())
        results = {"steps": scheduler.timesteps, "norms": torch.stack(seen), "end": x}
        if hasattr(scheduler, "add_noise") and len(set(scheduler.timesteps.tolist())) > 3:
            at = scheduler.timesteps[[1, 3]]
            results["noised"] = scheduler.add_noise(normal(2, 3, 6, 6), normal(2, 3, 6, 6, seed=1), at)
        if hasattr(scheduler, "get_velocity") and len(scheduler.timesteps) > 3:
            results["velocity"] = scheduler.get_velocity(
                normal(2, 3, 6, 6), normal(2, 3, 6, 6, seed=1), scheduler.timesteps[[1, 3]]
            )
    return results


for name in SCHEDULERS:
    client.case(lambda name=name: scheduled(name), name=name)


WORDS = normal(2, 7, 24)
TIMES = torch.tensor([10, 500])
CROSS = {
    "sample_size": 16,
    "block_out_channels": (16, 32),
    "norm_num_groups": 8,
    "cross_attention_dim": 24,
    "attention_head_dim": 8,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "layers_per_block": 1,
}
VIDEO = {
    **CROSS,
    "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
    "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
}
AUTOENCODER = {
    "block_out_channels": (16, 32),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "norm_num_groups": 8,
    "latent_channels": 4,
}
ROPE = {
    "num_layers": 1,
    "attention_head_dim": 16,
    "num_attention_heads": 2,
    "joint_attention_dim": 24,
    "axes_dims_rope": (4, 4, 8),
}
PLACES = {
    "img_ids": torch.stack([integers(6, 16, seed=k).float() for k in range(3)], 1),
    "txt_ids": torch.zeros(7, 3),
}
MASK = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
PICTURES = normal(2, 4, 16, 16)
# What a model is made with, and what it is called with.
MODELS = {
    "UNet2DModel": (
        {
            "sample_size": 16,
            "block_out_channels": (16, 32),
            "norm_num_groups": 8,
            "attention_head_dim": 8,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
            "layers_per_block": 1,
        },
        {"sample": normal(2, 3, 16, 16), "timestep": TIMES},
    ),
    "UNet2DModel of classes": (
        {
            "sample_size": 16,
            "block_out_channels": (16, 32),
            "norm_num_groups": 8,
            "attention_head_dim": 8,
            "down_block_types": ("ResnetDownsampleBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "ResnetUpsampleBlock2D"),
            "layers_per_block": 1,
            "resnet_time_scale_shift": "scale_shift",
            "num_class_embeds": 5,
            "time_embedding_type": "fourier",
        },
        {"sample": normal(2, 3, 16, 16), "timestep": TIMES, "class_labels": torch.tensor([1, 4])},
    ),
    "UNet1DModel": (
        {
            "sample_size": 64,
            "in_channels": 4,
            "out_channels": 4,
            "extra_in_channels": 64,
            "block_out_channels": (32, 32, 64),
            "down_block_types": ("DownBlock1DNoSkip", "DownBlock1D", "AttnDownBlock1D"),
            "up_block_types": ("AttnUpBlock1D", "UpBlock1D", "UpBlock1DNoSkip"),
        },
        {"sample": normal(2, 4, 64), "timestep": TIMES},
    ),
    "UNet2DConditionModel": (CROSS, {"sample": PICTURES, "timestep": TIMES, "encoder_hidden_states": WORDS}),
    "UNet2DConditionModel XL": (
        {
            **CROSS,
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
            "attention_head_dim": (2, 4),
            "use_linear_projection": True,
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "transformer_layers_per_block": (1, 2),
            "projection_class_embeddings_input_dim": 64,
        },
        {
            "sample": PICTURES,
            "timestep": TIMES,
            "encoder_hidden_states": WORDS,
            "added_cond_kwargs": {"text_embeds": normal(2, 16), "time_ids": integers(64, 2, 6)},
        },
    ),
    "ControlNetModel": (
        {
            **{k: v for k, v in CROSS.items() if k not in ("sample_size", "up_block_types")},
            "conditioning_embedding_out_channels": (8, 16),
        },
        {
            "sample": PICTURES,
            "timestep": TIMES,
            "encoder_hidden_states": WORDS,
            "controlnet_cond": normal(2, 3, 32, 32),
            "conditioning_scale": 0.7,
        },
    ),
    "UNet3DConditionModel": (
        VIDEO,
        {"sample": normal(2, 4, 3, 8, 8), "timestep": TIMES, "encoder_hidden_states": WORDS},
    ),
    "UNetMotionModel": (
        {
            **{k: v for k, v in CROSS.items() if k != "attention_head_dim"},
            "down_block_types": ("CrossAttnDownBlockMotion", "DownBlockMotion"),
            "up_block_types": ("UpBlockMotion", "CrossAttnUpBlockMotion"),
            "num_attention_heads": 2,
            "motion_num_attention_heads": 2,
        },
        {"sample": normal(2, 4, 3, 8, 8), "timestep": TIMES, "encoder_hidden_states": normal(6, 7, 24)},
    ),
    "UNetSpatioTemporalConditionModel": (
        {
            "sample_size": 8,
            "block_out_channels": (32, 64),
            "down_block_types": ("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
            "up_block_types": ("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
            "cross_attention_dim": 24,
            "num_attention_heads": 4,
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 24,
            "layers_per_block": 1,
        },
        {
            "sample": normal(2, 3, 8, 8, 8),
            "timestep": TIMES,
            "encoder_hidden_states": WORDS,
            "added_time_ids": integers(9, 2, 3).float(),
        },
    ),
    "AutoencoderKL": (AUTOENCODER, {"sample": normal(2, 3, 32, 32)}),
    "VQModel": ({**AUTOENCODER, "num_vq_embeddings": 11}, {"sample": normal(2, 3, 16, 16)}),
    "AutoencoderTiny": (
        {
            "encoder_block_out_channels": (16, 16),
            "decoder_block_out_channels": (16, 16),
            "num_encoder_blocks": (1, 2),
            "num_decoder_blocks": (2, 1),
        },
        {"sample": normal(2, 3, 16, 16).sigmoid()},
    ),
    "AutoencoderKLTemporalDecoder": (
        {
            "block_out_channels": (32, 32),
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "latent_channels": 4,
        },
        {"sample": normal(4, 3, 16, 16), "num_frames": 2},
    ),
    "AutoencoderOobleck": (
        {
            "encoder_hidden_size": 8,
            "decoder_channels": 8,
            "decoder_input_channels": 4,
            "downsampling_ratios": [2, 4],
            "channel_multiples": [1, 2],
        },
        {"sample": normal(2, 2, 64)},
    ),
    "AutoencoderDC": (
        {
            "latent_channels": 4,
            "attention_head_dim": 8,
            "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "encoder_block_out_channels": (8, 16),
            "decoder_block_out_channels": (8, 16),
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "encoder_qkv_multiscales": ((), (5,)),
            "decoder_qkv_multiscales": ((), (5,)),
        },
        {"sample": normal(2, 3, 16, 16)},
    ),
    "AutoencoderKLWan": (
        {
            "base_dim": 8,
            "z_dim": 4,
            "dim_mult": [1, 1, 1, 1],
            "num_res_blocks": 1,
            "temperal_downsample": [False, True, True],
        },
        {"sample": normal(1, 3, 5, 16, 16)},
    ),
    "AutoencoderKLCogVideoX": (
        {
            "down_block_types": ("CogVideoXDownBlock3D",) * 2,
            "up_block_types": ("CogVideoXUpBlock3D",) * 2,
            "block_out_channels": (8, 8),
            "latent_channels": 4,
            "layers_per_block": 1,
            "norm_num_groups": 2,
            "temporal_compression_ratio": 2,
        },
        {"sample": normal(1, 3, 4, 16, 16)},
    ),
    "DiTTransformer2DModel": (
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "num_layers": 2,
            "sample_size": 8,
            "out_channels": 8,
            "num_embeds_ada_norm": 8,
        },
        {"hidden_states": normal(2, 4, 8, 8), "timestep": TIMES, "class_labels": torch.tensor([1, 5])},
    ),
    "PixArtTransformer2DModel": (
        {
            "num_attention_heads": 2,
            "attention_head_dim": 12,
            "num_layers": 2,
            "sample_size": 8,
            "cross_attention_dim": 24,
            "caption_channels": 24,
            "use_additional_conditions": False,
        },
        {
            "hidden_states": normal(2, 4, 8, 8),
            "timestep": TIMES,
            "encoder_hidden_states": WORDS,
            "encoder_attention_mask": MASK,
            "added_cond_kwargs": {"aspect_ratio": None, "resolution": None},
        },
    ),
    "SD3Transformer2DModel": (
        {
            "sample_size": 8,
            "patch_size": 2,
            "in_channels": 4,
            "out_channels": 4,
            "num_layers": 2,
            "attention_head_dim": 8,
            "num_attention_heads": 4,
            "caption_projection_dim": 32,
            "joint_attention_dim": 24,
            "pooled_projection_dim": 16,
            "pos_embed_max_size": 8,
            "qk_norm": "rms_norm",
            "dual_attention_layers": (0,),
        },
        {
            "hidden_states": normal(2, 4, 8, 8),
            "encoder_hidden_states": WORDS,
            "pooled_projections": normal(2, 16),
            "timestep": TIMES,
        },
    ),
    "FluxTransformer2DModel": (
        {
            **ROPE,
            "in_channels": 4,
            "num_single_layers": 1,
            "pooled_projection_dim": 16,
            "guidance_embeds": True,
        },
        {
            "hidden_states": normal(2, 16, 4),
            "encoder_hidden_states": WORDS,
            "pooled_projections": normal(2, 16),
            "timestep": TIMES / 1000,
            "guidance": torch.tensor([3.5, 1.0]),
            **PLACES,
        },
    ),
    "ChromaTransformer2DModel": (
        {
            **ROPE,
            "in_channels": 4,
            "num_single_layers": 1,
            "approximator_num_channels": 8,
            "approximator_hidden_dim": 16,
            "approximator_layers": 1,
        },
        {
            "hidden_states": normal(2, 16, 4),
            "encoder_hidden_states": WORDS,
            "timestep": TIMES / 1000,
            **PLACES,
        },
    ),
    "QwenImageTransformer2DModel": (
        {**ROPE, "in_channels": 16, "out_channels": 4},
        {
            "hidden_states": normal(2, 16, 16),
            "encoder_hidden_states": WORDS,
            "encoder_hidden_states_mask": torch.ones(2, 7).long(),
            "timestep": TIMES / 1000,
            "img_shapes": [(1, 4, 4)] * 2,
        },
    ),
    "SanaTransformer2DModel": (
        {
            "in_channels": 4,
            "out_channels": 4,
            "num_layers": 1,
            "attention_head_dim": 4,
            "num_attention_heads": 2,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 4,
            "cross_attention_dim": 8,
            "caption_channels": 24,
            "sample_size": 8,
        },
        {"hidden_states": normal(2, 4, 8, 8), "encoder_hidden_states": WORDS, "timestep": TIMES},
    ),
    "AuraFlowTransformer2DModel": (
        {
            "sample_size": 8,
            "num_mmdit_layers": 1,
            "num_single_dit_layers": 1,
            "attention_head_dim": 8,
            "num_attention_heads": 4,
            "caption_projection_dim": 32,
            "joint_attention_dim": 24,
            "pos_embed_max_size": 64,
        },
        {"hidden_states": normal(2, 4, 8, 8), "encoder_hidden_states": WORDS, "timestep": TIMES / 1000},
    ),
    "CogVideoXTransformer3DModel": (
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "in_channels": 4,
            "out_channels": 4,
            "time_embed_dim": 8,
            "text_embed_dim": 24,
            "num_layers": 1,
            "sample_width": 8,
            "sample_height": 8,
            "sample_frames": 8,
            "max_text_seq_length": 7,
        },
        {"hidden_states": normal(2, 2, 4, 8, 8), "encoder_hidden_states": WORDS, "timestep": TIMES},
    ),
    "LTXVideoTransformer3DModel": (
        {
            "in_channels": 4,
            "out_channels": 4,
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "cross_attention_dim": 16,
            "num_layers": 1,
            "caption_channels": 24,
        },
        {
            "hidden_states": normal(2, 32, 4),
            "encoder_hidden_states": WORDS,
            "encoder_attention_mask": MASK.bool(),
            "timestep": TIMES,
            "num_frames": 2,
            "height": 4,
            "width": 4,
        },
    ),
    "MochiTransformer3DModel": (
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "num_layers": 2,
            "pooled_projection_dim": 16,
            "in_channels": 4,
            "text_embed_dim": 24,
            "time_embed_dim": 4,
            "max_sequence_length": 7,
        },
        {
            "hidden_states": normal(2, 4, 2, 8, 8),
            "encoder_hidden_states": WORDS,
            "encoder_attention_mask": MASK.bool(),
            "timestep": TIMES,
        },
    ),
    "WanTransformer3DModel": (
        {
            "num_attention_heads": 2,
            "attention_head_dim": 12,
            "in_channels": 4,
            "out_channels": 4,
            "text_dim": 24,
            "freq_dim": 32,
            "ffn_dim": 32,
            "num_layers": 2,
            "rope_max_seq_len": 32,
        },
        {"hidden_states": normal(2, 4, 2, 8, 8), "encoder_hidden_states": WORDS, "timestep": TIMES},
    ),
    "HunyuanVideoTransformer3DModel": (
        {
            "in_channels": 4,
            "out_channels": 4,
            "num_attention_heads": 2,
            "attention_head_dim": 10,
            "num_layers": 1,
            "num_single_layers": 1,
            "num_refiner_layers": 1,
            "patch_size": 1,
            "text_embed_dim": 24,
            "pooled_projection_dim": 8,
            "rope_axes_dim": (2, 4, 4),
        },
        {
            "hidden_states": normal(2, 4, 2, 4, 4),
            "encoder_hidden_states": WORDS,
            "encoder_attention_mask": MASK,
            "pooled_projections": normal(2, 8),
            "timestep": TIMES,
            "guidance": torch.tensor([6000.0, 1000.0]),
        },
    ),
    "Lumina2Transformer2DModel": (
        {
            "sample_size": 8,
            "in_channels": 4,
            "hidden_size": 24,
            "num_layers": 1,
            "num_refiner_layers": 1,
            "num_attention_heads": 3,
            "num_kv_heads": 1,
            "multiple_of": 2,
            "axes_dim_rope": (4, 2, 2),
            "axes_lens": (32, 32, 32),
            "cap_feat_dim": 24,
        },
        {
            "hidden_states": normal(2, 4, 8, 8),
            "encoder_hidden_states": WORDS,
            "encoder_attention_mask": MASK.bool(),
            "timestep": TIMES / 1000,
        },
    ),
    "CogView4Transformer2DModel": (
        {
            "in_channels": 4,
            "out_channels": 4,
            "num_layers": 1,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "text_embed_dim": 24,
            "time_embed_dim": 8,
            "condition_dim": 4,
            "pos_embed_max_size": 8,
            "rope_axes_dim": (8, 8),
        },
        {
            "hidden_states": normal(2, 4, 8, 8),
            "encoder_hidden_states": WORDS,
            "timestep": TIMES,
            "original_size": torch.tensor([[32, 32]] * 2),
            "target_size": torch.tensor([[32, 32]] * 2),
            "crop_coords": torch.tensor([[0, 0]] * 2),
        },
    ),
    "StableAudioDiTModel": (
        {
            "sample_size": 16,
            "in_channels": 4,
            "num_layers": 1,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "num_key_value_attention_heads": 2,
            "out_channels": 4,
            "cross_attention_dim": 24,
            "time_proj_dim": 8,
            "global_states_input_dim": 8,
            "cross_attention_input_dim": 24,
        },
        {
            "hidden_states": normal(2, 4, 16),
            "timestep": TIMES,
            "encoder_hidden_states": WORDS,
            "global_hidden_states": normal(2, 1, 8),
        },
    ),
    "TransformerTemporalModel": (
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "in_channels": 16,
            "norm_num_groups": 4,
            "cross_attention_dim": 24,
        },
        {"hidden_states": normal(4, 16, 4, 4), "num_frames": 2},
    ),
}


def build(name):
    with draws():
        return fill(getattr(diffusers, name.partition(" ")[0])(**MODELS[name][0]))


def tensors(out):
    out = out if isinstance(out, (tuple, list)) else (out,)
    flat = [y for x in out for y in (x if isinstance(x, (tuple, list)) else (x,))]
    return [x for x in flat if isinstance(x, torch.Tensor)]


def numbers(name):
    """What comes out, and gradients in float64."""
    model = build(name)
    call = MODELS[name][1]
    with torch.no_grad():
        out = tensors(model.eval()(**call, return_dict=False))
    if name == "AutoencoderTiny":  # its scale is of single precision
        loss = model(**call).sample.square().mean()
        loss.backward()
        return [out, loss, model.encoder.layers[0].weight.grad]
    model = model.double()
    call = {
        k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in call.items()
    }
    if "added_cond_kwargs" in call:
        call["added_cond_kwargs"] = {
            k: v.double() if v is not None and v.is_floating_point() else v
            for k, v in call["added_cond_kwargs"].items()
        }
    loss = sum(x.square().mean() for x in tensors(model(**call, return_dict=False)))
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    every = 1 + len(gradients) // 40
    return {
        "out": out[:3],
        "loss": loss,
        "gradients": np.array([float(g.norm()) for g in gradients[::every]]),
    }


for name in MODELS:
    client.case(lambda name=name: numbers(name), name=name)


def unet(**options):
    return fill(diffusers.UNet2DConditionModel(**{**CROSS, **options})).eval()


def autoencoder():
    return fill(diffusers.AutoencoderKL(**AUTOENCODER)).eval()


def text_encoder(kind=transformers.CLIPTextModel):
    config = transformers.CLIPTextConfig(
        vocab_size=60,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
        projection_dim=16,
    )
    return fill(kind(config)).eval()


def stable(kind=diffusers.StableDiffusionPipeline, **more):
    pipe = kind(
        vae=autoencoder(),
        text_encoder=text_encoder(),
        tokenizer=None,
        unet=unet(),
        scheduler=diffusers.DDIMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
        **more,
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


PROMPTS = {"prompt_embeds": normal(1, 7, 24), "negative_prompt_embeds": normal(1, 7, 24, seed=1)}
SHORT = {"num_inference_steps": 3, "output_type": "np"}


@client.case
def unconditional():
    """Pictures from noise: with steps that draw noise and with such that do not."""
    results = {}
    for name, kind, scheduler in (
        ("ddpm", diffusers.DDPMPipeline, diffusers.DDPMScheduler),
        ("ddim", diffusers.DDIMPipeline, diffusers.DDIMScheduler),
    ):
        pipe = kind(build("UNet2DModel").eval(), scheduler())
        pipe.set_progress_bar_config(disable=True)
        with draws():
            results[name] = pipe(batch_size=2, **SHORT).images
    return results


@client.case
def text_to_image():
    pipe = stable()
    results = {}
    for name, scheduler in (
        ("ddim", diffusers.DDIMScheduler),
        ("euler", diffusers.EulerDiscreteScheduler),
        ("dpm", diffusers.DPMSolverMultistepScheduler),
        ("unipc", diffusers.UniPCMultistepScheduler),
    ):
        pipe.scheduler = scheduler.from_config(pipe.scheduler.config)
        with draws():
            results[name] = pipe(**PROMPTS, **SHORT, guidance_scale=4.0, height=32, width=32).images
    seen = []
    with draws():
        latents = pipe(
            **PROMPTS,
            num_inference_steps=3,
            output_type="latent",
            height=32,
            width=32,
            guidance_rescale=0.5,
            callback_on_step_end=lambda pipe, k, t, values: (seen.append(float(t)), values)[1],
        ).images
    return {**results, "latents": latents, "seen": np.array(seen)}


@client.case
def image_to_image():
    """A picture changed, and a part of one painted."""
    image = normal(1, 3, 32, 32).sigmoid()
    mask = torch.zeros(1, 1, 32, 32)
    mask[..., 8:24, 8:24] = 1
    results = {}
    with draws():
        pipe = stable(diffusers.StableDiffusionImg2ImgPipeline)
        results["changed"] = pipe(image=image, strength=0.7, **PROMPTS, **SHORT).images
    with draws():
        pipe = stable(diffusers.StableDiffusionInpaintPipeline)
        results["painted"] = pipe(
            image=image, mask_image=mask, height=32, width=32, **PROMPTS, **SHORT
        ).images
    return results


@client.case
def controlled():
    with draws():
        net = fill(diffusers.ControlNetModel(**MODELS["ControlNetModel"][0])).eval()
        pipe = stable(diffusers.StableDiffusionControlNetPipeline, controlnet=net)
        return pipe(image=normal(1, 3, 32, 32).sigmoid(), height=32, width=32, **PROMPTS, **SHORT).images


@client.case
def larger():
    """Stable Diffusion XL, with two text encoders' widths."""
    pipe = diffusers.StableDiffusionXLPipeline(
        vae=autoencoder(),
        text_encoder=text_encoder(),
        text_encoder_2=text_encoder(transformers.CLIPTextModelWithProjection),
        tokenizer=None,
        tokenizer_2=None,
        unet=build("UNet2DConditionModel XL").eval(),
        scheduler=diffusers.EulerDiscreteScheduler(),
        add_watermarker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    with draws():
        return pipe(
            **PROMPTS,
            **SHORT,
            pooled_prompt_embeds=normal(1, 16),
            negative_pooled_prompt_embeds=normal(1, 16, seed=1),
            height=32,
            width=32,
        ).images


@client.case
def flowing():
    """Stable Diffusion 3 and Flux, whose schedulers match flows."""
    results = {}
    pipe = diffusers.StableDiffusion3Pipeline(
        transformer=build("SD3Transformer2DModel").eval(),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=fill(diffusers.AutoencoderKL(**AUTOENCODER, shift_factor=0.06)).eval(),
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        text_encoder_3=None,
        tokenizer_3=None,
    )
    pipe.set_progress_bar_config(disable=True)
    pooled = {"pooled_prompt_embeds": normal(1, 16), "negative_pooled_prompt_embeds": normal(1, 16, seed=1)}
    with draws():
        results["sd3"] = pipe(**PROMPTS, **pooled, **SHORT, height=16, width=16).images
    flux = fill(
        diffusers.FluxTransformer2DModel(**{**MODELS["FluxTransformer2DModel"][0], "in_channels": 16})
    ).eval()
    pipe = diffusers.FluxPipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=fill(diffusers.AutoencoderKL(**AUTOENCODER, shift_factor=0.06)).eval(),
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        transformer=flux,
    )
    pipe.set_progress_bar_config(disable=True)
    with draws():
        results["flux"] = pipe(
            prompt_embeds=normal(1, 7, 24),
            pooled_prompt_embeds=normal(1, 16),
            height=16,
            width=16,
            **SHORT,
        ).images
    return results


@client.case
def of_classes():
    """DiT: pictures of given classes."""
    config = {**MODELS["DiTTransformer2DModel"][0], "sample_size": 8, "num_embeds_ada_norm": 1000}
    with draws():
        pipe = diffusers.DiTPipeline(
            fill(diffusers.DiTTransformer2DModel(**config)).eval(), autoencoder(), diffusers.DDIMScheduler()
        )
        pipe.set_progress_bar_config(disable=True)
        return pipe(class_labels=[3, 7], num_inference_steps=2, output_type="np").images


@client.case
def trained():
    """A network that takes noise away, trained for some steps, and its mean over them."""
    model, scheduler = build("UNet2DModel").train(), diffusers.DDPMScheduler()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = diffusers.optimization.get_cosine_schedule_with_warmup(optimizer, 2, 8)
    mean = diffusers.training_utils.EMAModel(
        model.parameters(), decay=0.9, model_cls=type(model), model_config=model.config
    )
    losses, rates = [], []
    for k in range(4):
        clean, noise, at = normal(2, 3, 16, 16), normal(2, 3, 16, 16, seed=k + 1), integers(1000, 2, seed=k)
        out = model(scheduler.add_noise(clean, noise, at), at).sample
        weights = diffusers.training_utils.compute_snr(scheduler, at).clamp(max=5.0)
        loss = (weights * (out - noise).square().mean((1, 2, 3))).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.append(schedule.get_last_lr()[0])
        schedule.step()
        mean.step(model.parameters())
        losses.append(loss.item())
    first = next(iter(mean.shadow_params))
    return [np.array(losses), np.array(rates), first]


@client.case
def files():
    """A network and a whole pipeline saved and loaded."""
    results = {}
    with tempfile.TemporaryDirectory() as folder, draws():
        model = build("UNet2DModel").eval()
        model.save_pretrained(folder)
        again = diffusers.UNet2DModel.from_pretrained(folder).eval()
        call = MODELS["UNet2DModel"][1]
        results["network"] = [sorted(os.listdir(folder)), model(**call).sample, again(**call).sample]
    with tempfile.TemporaryDirectory() as folder:
        pipe = diffusers.DDIMPipeline(model, diffusers.DDIMScheduler())
        pipe.save_pretrained(folder)
        again = diffusers.DDIMPipeline.from_pretrained(folder)
        again.set_progress_bar_config(disable=True)
        with draws():
            results["pipeline"] = [sorted(os.listdir(folder)), again(**SHORT).images]
    return results


@client.case
def pieces():
    """Attention in slices, autoencoders in tiles, processors of attention, free noise, layers that run again for gradients."""
    model, call = unet(), MODELS["UNet2DConditionModel"][1]
    vae, image = autoencoder(), normal(2, 3, 48, 48)
    with torch.no_grad():
        results = {"plain": model(**call).sample}
        model.set_attention_slice(1)
        results["slices"] = model(**call).sample
        model.set_attn_processor(diffusers.models.attention_processor.AttnProcessor())
        results["by hand"] = model(**call).sample
        model.fuse_qkv_projections()
        results["fused"] = model(**call).sample
        model.unfuse_qkv_projections()
        model.enable_freeu(s1=0.9, s2=0.2, b1=1.2, b2=1.4)
        results["frequencies"] = model(**call).sample
        model.disable_freeu()
        vae.enable_slicing()
        vae.tile_sample_min_size, vae.tile_latent_min_size = 32, 16
        vae.enable_tiling()
        results["tiles"] = vae.decode(vae.encode(image).latent_dist.mode()).sample
    model = unet().train()
    model.enable_gradient_checkpointing()
    model(**call).sample.square().mean().backward()
    results["again"] = np.array([float(p.grad.norm()) for p in list(model.parameters())[:20]])
    return results
