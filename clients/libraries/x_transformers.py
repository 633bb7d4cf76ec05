"""x-transformers: its options one by one in a small language model with gradients, its wrappers, caches, and generation."""

import warnings

import torch
import x_transformers as xt
from harness import Client, draws, fill, integers, normal
from x_transformers import autoregressive_wrapper, x_transformers

client = Client("x-transformers", samples=4)
warnings.filterwarnings("ignore")

BLOCK = {"dim": 32, "depth": 2, "heads": 4, "attn_dim_head": 8}


def learnt(model, loss):
    """The loss, and the norms of all gradients as one array."""
    loss.backward()
    norms = [p.grad.norm() if p.grad is not None else torch.zeros(()) for p in model.parameters()]
    return [loss, torch.stack(norms)]


def language_model(layers=xt.Decoder, wrapper=None, **options):
    block = layers(**{**BLOCK, **options})
    return fill(xt.TransformerWrapper(num_tokens=40, max_seq_len=24, attn_layers=block, **(wrapper or {})))


def language(layers=xt.Decoder, wrapper=None, **options):
    """Logits, the loss of the next token, and gradients; with a mask where attention looks both ways."""

    def run():
        with draws(3):
            model = language_model(layers, wrapper, **options)
            tokens = integers(40, 2, 12)
            inputs = {}
            if layers is xt.Encoder:
                inputs["mask"] = torch.arange(12) < torch.tensor([[12], [7]])
            if "dim_condition" in options:
                inputs["condition"] = normal(2, options["dim_condition"])
            logits = model(tokens, **inputs)
            first = logits[0] if isinstance(logits, (list, tuple)) else logits
            loss = torch.nn.functional.cross_entropy(first.flatten(0, -2)[:, :40], tokens.flatten())
            return [logits, *learnt(model, loss)]

    return run


POSITIONS = {
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
    "relative": {"rel_pos_bias": True},
    "dynamic": {"dynamic_pos_bias": True},
    "dynamic log": {"dynamic_pos_bias": True, "dynamic_pos_bias_log_distance": True},
    "rotary": {"rotary_pos_emb": True},
    "xpos": {"rotary_pos_emb": True, "rotary_xpos": True},
    "rotary scaled": {"rotary_pos_emb": True, "rotary_interpolation_factor": 2.0, "rotate_num_heads": 2},
    "polar": {"polar_pos_emb": True},
    "data dependent alibi": {"attn_data_dependent_alibi": True},
    "alibi by rows": {"attn_data_dependent_alibi": True, "attn_data_dependent_alibi_per_row": True},
    "relative projections": {"attn_use_rel_proj_pos_bias": True},
    "cope": {"attn_use_cope": True},
    "cope talking": {
        "attn_use_cope": True,
        "attn_cope_talking_heads": True,
    },
    "shifted tokens": {"shift_tokens": 1},
}
NORMS = {
    name: {name: True}
    for name in (
        "use_scalenorm",
        "use_rmsnorm",
        "use_simple_rmsnorm",
        "use_dynamic_tanh",
        "use_derf",
        "sandwich_norm",
        "pre_and_post_norm",
        "gate_residual",
        "orthog_residual",
        "mv_split_residual",
        "scale_residual",
        "depth_scale_residual",
        "residual_attn",
        "macaron",
        "use_layerscale",
        "unet_skips",
        "integrate_layers",
        "add_value_residual",
        "softclamp_output",
        "reinject_input",
        "weight_tie_layers",
        "zero_init_branch_output",
        "only_attn",
        "verbose",
    )
} | {
    "post norm": {"pre_norm": False},
    "sandwich order": {"sandwich_coef": 1},
    "parallel ratio": {"par_ratio": 2},
    "own order": {"depth": None, "custom_layers": ("a", "f", "f"), "layers_execute_order": (0, 1, 0, 2)},
    "residual streams": {"num_residual_streams": 4},
    "gates of residuals": {"gated_multi_residual": True, "residual_fn_kwargs": {"read_gate_rank": 4}},
    "aggregated": {"attn_aggregated_residuals": True, "attn_aggregated_residual_kwargs": {"lora_rank": 4}},
    "different residuals": {"qkv_receive_diff_residuals": True, "integrate_layers": True},
    "learned gate": {"reinject_input": True, "learned_reinject_input_gate": True},
    "adaptive layernorm": {"use_adaptive_layernorm": True, "dim_condition": 6},
    "adaptive rmsnorm": {"use_adaptive_rmsnorm": True, "use_adaptive_layerscale": True, "dim_condition": 6},
    "adaptive mlp": {"use_adaptive_layernorm": True, "dim_condition": 6, "adaptive_condition_mlp": True},
}
ATTENTION = {
    name: {"attn_" + name: True}
    for name in (
        "flash",
        "pre_talking_heads",
        "post_talking_heads",
        "pre_scale_post_talking_heads",
        "head_scale",
        "on_attn",
        "gate_value_heads",
        "swiglu_values",
        "gate_values",
        "gate_values_headwise",
        "output_gate",
        "output_gate_headwise",
        "zero_init_output",
        "hard",
        "qk_norm",
        "qk_norm_dim_scale",
        "qk_rmsnorm",
        "k_rmsnorm",
        "value_rmsnorm",
        "sigmoid",
        "selective",
        "cog_signed",
        "one_kv_head",
        "add_zero_kv",
        "head_learned_sink",
        "softclamp_logits",
        "orthog_projected_values",
        "orthog_projected_values_per_head",
        "laser",
        "inverted_attention",
    )
} | {
    "flash with biases": {"attn_flash": True, "alibi_pos_bias": True},
    "sparse": {"attn_sparse_topk": 3},
    "sparse straight through": {"attn_sparse_topk": 3, "attn_sparse_topk_straight_through": True},
    "memories": {"attn_num_mem_kv": 3},
    "flash with memories": {"attn_num_mem_kv": 3, "attn_flash": True},
    "grouped queries": {"attn_kv_heads": 2},
    "flash with grouped queries": {"attn_kv_heads": 2, "attn_flash": True},
    "values of another size": {"attn_value_dim_head": 12},
    "a window": {"attn_max_attend_past": 4},
    "norms in groups": {"attn_qk_norm": True, "attn_qk_norm_groups": 2},
    "latent": {
        "attn_use_latent_q": True,
        "attn_dim_latent_q": 16,
        "attn_use_latent_kv": True,
        "attn_dim_latent_kv": 16,
    },
    "gates of low rank": {"attn_gate_values": True, "attn_gate_values_rank": 4},
    "dropout": {"attn_dropout": 0.0, "attn_sublayer_dropout": 0.0},
}
FORWARD = {
    name: {"ff_" + name: True}
    for name in ("glu", "swish", "relu_squared", "solu", "post_act_ln", "no_bias", "zero_init_output")
} | {
    "swiglu": {"ff_glu": True, "ff_swish": True, "ff_glu_mult_bias": True},
    "soft clamps": {"ff_glu": True, "ff_glu_softclamp": True, "ff_softclamp_value": 5.0},
    "own activation": {"ff_custom_activation": torch.nn.Mish()},
    "narrow": {"ff_mult": 2},
}
WRAPPER = {
    "memory tokens": {"num_memory_tokens": 3},
    "interspersed": {"num_memory_tokens": 2, "memory_tokens_interspersed_every": 4},
    "tied": {"tie_embedding": True},
    "own width": {"emb_dim": 20, "post_emb_norm": True},
    "no positions": {"use_abs_pos_emb": False},
    "sinusoids": {"scaled_sinu_pos_emb": True},
    "unit embeddings": {"l2norm_embed": True},
    "two heads": {"num_output_heads": 2},
    "fractional gradient": {"emb_frac_gradient": 0.1},
    "mixture": {"mixture_of_softmax": True},
    "sigsoftmax": {"mixture_of_softmax": True, "sigsoftmax_logits": True},
    "deep embeddings": {"ff_deep_embed": True},
    "logits": {"logits_dim": 44},
}
ENCODER = {
    "plain": {},
    "alibi": {"alibi_pos_bias": True},
    "relative": {"rel_pos_bias": True},
    "rotary": {"rotary_pos_emb": True},
    "flash": {"attn_flash": True, "use_rmsnorm": True, "ff_glu": True},
}
for group, table in {
    "positions": POSITIONS,
    "layers": NORMS,
    "attention": ATTENTION,
    "forward": FORWARD,
}.items():
    for option, settings in table.items():
        client.case(language(**settings), name=f"{group}: {option}")
for option, settings in WRAPPER.items():
    client.case(language(wrapper=settings), name=f"wrapper: {option}")
for option, settings in ENCODER.items():
    client.case(language(xt.Encoder, **settings), name=f"encoder: {option}")


@client.case
def pooled():
    """One vector for a sequence: means, class tokens, pooling by attention; and an encoder's embeddings."""
    answers = []
    for settings in (
        {"average_pool_embed": True},
        {"use_cls_token": True},
        {"use_cls_token": True, "num_cls_tokens": 2},
        {"attn_pool": True, "num_pooled_tokens": 2},
        {"return_only_embed": True},
    ):
        model = language_model(xt.Encoder, settings)
        out = model(integers(40, 2, 12), mask=torch.arange(12) < torch.tensor([[12], [7]]))
        answers.append([out, *learnt(model, out.square().mean())])
    return answers


@client.case
def recycled_and_looped():
    answers = []
    with draws(1):
        for settings, inputs, options in (
            ({"recycling": True}, {"recycle_steps": 3}, {}),
            ({"looped": True}, {}, {"pre_and_post_norm": True}),
        ):
            model = language_model(wrapper=settings, **options)
            out = model(integers(40, 2, 12), **inputs)
            out = out[0] if isinstance(out, tuple) else out
            answers.append([out, *learnt(model, out.square().mean())])
    return answers


@client.case
def intermediates_and_memories():
    """What a model returns besides logits: hidden states, attention maps, memories of an earlier segment, embeddings."""
    model = language_model(rel_pos_bias=True, wrapper={"max_mem_len": 8, "shift_mem_down": 1})
    logits, memories = model(integers(40, 2, 12), return_mems=True)
    again, maps = model(integers(40, 2, 12, seed=1), mems=memories, return_attn=True)
    both, embedded = model(integers(40, 2, 12), return_logits_and_embeddings=True)
    loss, details = model(integers(40, 2, 12), return_attn_z_loss=True, return_intermediates=True)
    return [logits, memories, again, maps, both, embedded, loss, details.hiddens, details.attn_z_loss]


@client.case
def cached():
    """Logits of the last token from a cache are those of the whole sequence."""
    answers = []
    for settings in (
        {},
        {"rotary_pos_emb": True},
        {"alibi_pos_bias": True, "attn_kv_heads": 2},
        {"attn_flash": True},
    ):
        model = language_model(**settings).eval()
        tokens = integers(40, 2, 12)
        with torch.no_grad():
            _, cache = model(tokens[:, :8], return_intermediates=True)
            step, cache = model(tokens[:, :9], cache=cache, return_intermediates=True)
            whole = model(tokens[:, :9])
        answers.append([step[:, -1], (step[:, -1] - whole[:, -1]).abs().max() < 1e-4])
    return answers


@client.case
def generated():
    """Greedy, beam, contrastive and sampled continuations, from prompts of several lengths, with an end."""
    model = language_model(rotary_pos_emb=True)
    wrapped = xt.AutoregressiveWrapper(model, pad_value=0)
    prompts = integers(39, 2, 5) + 1
    amateur = xt.AutoregressiveWrapper(fill(language_model(depth=1), seed=4))
    greedy = {"temperature": 0.0}
    answers = [
        wrapped.generate(prompts, 8, **greedy),
        wrapped.generate(prompts, 8, cache_kv=False, **greedy),
        wrapped.generate(prompts, 8, prompt_lens=torch.tensor([5, 3]), **greedy),
        wrapped.generate(prompts, 8, eos_token=int(wrapped.generate(prompts, 3, **greedy)[0, 1]), **greedy),
        wrapped.generate(prompts, 30, **greedy),
        wrapped.beam_search(prompts, 6, beams=3),
        wrapped.generate(prompts, 6, amateur_model=amateur.net, **greedy),
    ]
    with draws(5):
        for name in ("top_k", "top_p", "min_p"):
            answers.append(wrapped.generate(prompts, 6, filter_logits_fn=name))
    return answers


@client.case
def filters_of_logits():
    logits = normal(3, 40)
    return [
        autoregressive_wrapper.top_k(logits, frac_num_tokens=0.1),
        autoregressive_wrapper.top_p(logits, thres=0.7),
        autoregressive_wrapper.top_a(logits),
        autoregressive_wrapper.min_p(logits),
    ]


@client.case
def losses_of_wrappers():
    """Autoregressive training with masked prompts and labels smoothed, Transformer-XL segments, DPO, masked tokens."""
    tokens = integers(39, 2, 13) + 1
    answers = []
    with draws(2, in_place=True):
        for options in ({}, {"mask_prob": 0.15}, {"add_attn_z_loss": True}, {"ignore_index": 3}):
            wrapped = xt.AutoregressiveWrapper(language_model(), **options)
            answers.append(learnt(wrapped, wrapped(tokens)))
        segments = language_model(rel_pos_bias=True, wrapper={"max_mem_len": 8})
        wrapped = xt.XLAutoregressiveWrapper(segments)
        answers.append(learnt(wrapped, wrapped(integers(40, 2, 40))))
        answers.append(wrapped.generate(integers(40, 1, 5), 8, temperature=0.0))
        preferred = xt.DPO(language_model(), pad_id=0)
        prompt = torch.arange(13) < torch.tensor([[4], [5]])
        answers.append(learnt(preferred, preferred(tokens, tokens.flip(0), prompt_mask=prompt)))
        masked = language_model(xt.Encoder)
        masked = xt.NonAutoregressiveWrapper(masked, mask_id=39, steps=4)
        answers.append(learnt(masked, masked(integers(39, 2, 24)).loss))
    return answers


@client.case
def encoder_and_decoder():
    """XTransformer: a loss over pairs of sequences, its gradients, and a translation."""
    model = xt.XTransformer(
        dim=32,
        enc_num_tokens=40,
        enc_depth=2,
        enc_heads=4,
        enc_max_seq_len=16,
        enc_rotary_pos_emb=True,
        dec_num_tokens=40,
        dec_depth=2,
        dec_heads=4,
        dec_max_seq_len=16,
        dec_cross_residual_attn=True,
        dec_rotary_pos_emb=True,
        tie_token_emb=True,
    )
    fill(model)
    source, target = integers(39, 2, 10) + 1, integers(39, 2, 9, seed=1) + 1
    mask = torch.arange(10) < torch.tensor([[10], [6]])
    answer = learnt(model, model(source, target, mask=mask))
    return [answer, model.generate(source, target[:, :1], 6, mask=mask, temperature=0.0)]


@client.case
def images():
    classes = xt.ViTransformerWrapper(
        image_size=16,
        patch_size=4,
        num_classes=5,
        num_register_tokens=2,
        attn_layers=xt.Encoder(**BLOCK, ff_glu=True),
    )
    fill(classes)
    pictures = normal(2, 3, 16, 16).requires_grad_()
    result = classes(pictures)
    captions = language_model(cross_attend=True)
    words = captions(integers(40, 2, 7), context=classes(pictures, return_embeddings=True))
    return [result, words, *learnt(captions, words.square().mean()), pictures.grad.norm()]


@client.case
def continuous_numbers():
    layers = {"attn_layers": xt.Decoder(**BLOCK)}
    model = fill(xt.ContinuousTransformerWrapper(dim_in=5, dim_out=5, max_seq_len=16, **layers))
    wrapped = xt.ContinuousAutoregressiveWrapper(model)
    answers = [learnt(wrapped, wrapped(normal(2, 9, 5))), wrapped.generate(normal(1, 2, 5), 4)]
    numbers = xt.XValTransformerWrapper(
        num_tokens=20, numerical_token_id=3, max_seq_len=16, attn_layers=xt.Decoder(**BLOCK)
    )
    wrapped = xt.XValAutoregressiveWrapper(fill(numbers), numerical_loss_weight=0.1)
    ids = integers(20, 2, 10)
    values = torch.where(ids == 3, normal(2, 10), torch.nan)
    loss = wrapped(ids, values)
    answers.append(learnt(wrapped, loss.loss if hasattr(loss, "loss") else loss))
    return answers


@client.case
def several_inputs():
    model = xt.MultiInputTransformerWrapper(
        num_tokens={"note": 20, "length": 10}, max_seq_len=16, attn_layers=xt.Decoder(**BLOCK)
    )
    out = fill(model)({"note": integers(20, 2, 8), "length": integers(10, 2, 8)})
    return [out, *learnt(model, sum(x.square().mean() for x in out.values()))]


@client.case
def crossing():
    """Cross attention alone, attention that pools, one attention layer with a context, and a prefix that is not causal."""
    crossing = fill(xt.CrossAttender(**BLOCK))
    a, b = normal(2, 6, 32), normal(2, 9, 32)
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    out = crossing(a, context=b, context_mask=mask)
    alone = fill(xt.Attention(dim=32, dim_head=8, heads=4, dim_context=32))
    pool = fill(xt.AttentionPool(dim=32, num_pooled_tokens=2, heads=4))
    prefix = fill(xt.PrefixDecoder(**BLOCK))
    return [
        out,
        *learnt(crossing, out.square().mean()),
        alone(a, context=b, context_mask=mask),
        pool(b),
        prefix(a, prefix_attn_len=3),
    ]


@client.case
def training():
    """Six steps of AdamW on a repeated text, in evaluation afterwards, and the weights written and read."""
    import io

    model = language_model(rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True, attn_kv_heads=2)
    wrapped = xt.AutoregressiveWrapper(model)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=3e-3)
    losses, text = [], integers(40, 1, 13).repeat(4, 1)
    for _ in range(6):
        loss = wrapped(text)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(wrapped.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = language_model(rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True, attn_kv_heads=2)
    again.load_state_dict(torch.load(file))
    return [losses, again.eval()(text[:1]), x_transformers.default_device().type]
