"""transformers: models of thirty-nine families, small, with the same weights; training by its Trainer, generation, files."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import torch
import transformers
from harness import Client, draws, fill, integers, normal

client = Client("transformers", "tokenizers", "safetensors")

WORDS, LENGTH = 97, 12
TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": WORDS,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DECODER = {**TEXT, "num_key_value_heads": 2}
SMALL = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GPT = {**SMALL, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
BOTH = {
    **SMALL,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 5,
    "drop_path_rate": 0.0,
}
STAGES = {"depths": [1, 1, 1, 1], "num_labels": 5, "drop_path_rate": 0.0}
# What it is for, the class, what its configuration is made of.
MODELS = {
    "gpt2": ("next word", "GPT2LMHeadModel", GPT),
    "llama": ("next word", "LlamaForCausalLM", DECODER),
    "mistral": ("next word", "MistralForCausalLM", {**DECODER, "sliding_window": 4}),
    "qwen2": ("next word", "Qwen2ForCausalLM", DECODER),
    "qwen3": ("next word", "Qwen3ForCausalLM", {**DECODER, "head_dim": 8}),
    "gemma": ("next word", "GemmaForCausalLM", {**DECODER, "head_dim": 8}),
    "gemma2": ("next word", "Gemma2ForCausalLM", {**DECODER, "head_dim": 8, "sliding_window": 4}),
    "phi": ("next word", "PhiForCausalLM", DECODER),
    "opt": ("next word", "OPTForCausalLM", {**TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "bloom": ("next word", "BloomForCausalLM", {**SMALL, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "gpt_neox": ("next word", "GPTNeoXForCausalLM", TEXT),
    "gptj": ("next word", "GPTJForCausalLM", {**GPT, "rotary_dim": 4}),
    "falcon": ("next word", "FalconForCausalLM", TEXT),
    "mixtral": ("next word", "MixtralForCausalLM", {**DECODER, "num_local_experts": 4}),
    "mamba": (
        "next word",
        "MambaForCausalLM",
        {**SMALL, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2},
    ),
    "bert": ("masked words", "BertForMaskedLM", TEXT),
    "bert_classes": ("class of text", "BertForSequenceClassification", TEXT),
    "distilbert": (
        "masked words",
        "DistilBertForMaskedLM",
        {**SMALL, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64},
    ),
    "roberta": ("masked words", "RobertaForMaskedLM", TEXT),
    "albert": ("masked words", "AlbertForMaskedLM", {**TEXT, "embedding_size": 16}),
    "electra": ("masked words", "ElectraForMaskedLM", {**TEXT, "embedding_size": 16}),
    "deberta_v2": (
        "masked words",
        "DebertaV2ForMaskedLM",
        {**TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
    ),
    "mpnet": ("masked words", "MPNetForMaskedLM", TEXT),
    "xlnet": (
        "words in any order",
        "XLNetLMHeadModel",
        {"vocab_size": WORDS, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
    ),
    "t5": (
        "text to text",
        "T5ForConditionalGeneration",
        {
            "vocab_size": WORDS,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
            "pad_token_id": 0,
            "eos_token_id": 2,
            "decoder_start_token_id": 0,
            "dropout_rate": 0.0,
        },
    ),
    "bart": ("text to text", "BartForConditionalGeneration", BOTH),
    "marian": ("text to text", "MarianMTModel", BOTH),
    "pegasus": ("text to text", "PegasusForConditionalGeneration", BOTH),
    "mbart": ("text to text", "MBartForConditionalGeneration", BOTH),
    "whisper": (
        "speech to text",
        "WhisperForConditionalGeneration",
        {
            **BOTH,
            "num_mel_bins": 8,
            "max_source_positions": 20,
            "max_target_positions": 40,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
    ),
    "wav2vec2": (
        "letters of speech",
        "Wav2Vec2ForCTC",
        {
            **TEXT,
            "conv_dim": (16, 16),
            "conv_stride": (4, 4),
            "conv_kernel": (8, 8),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
            "feat_proj_dropout": 0.0,
            "final_dropout": 0.0,
            "layerdrop": 0.0,
            "apply_spec_augment": False,
        },
    ),
    "vit": ("class of image", "ViTForImageClassification", IMAGE),
    "deit": ("class of image", "DeiTForImageClassification", IMAGE),
    "beit": ("class of image", "BeitForImageClassification", IMAGE),
    "dinov2": ("class of image", "Dinov2ForImageClassification", IMAGE),
    "swin": (
        "class of image",
        "SwinForImageClassification",
        {
            **STAGES,
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 4],
            "window_size": 4,
        },
    ),
    "convnext": (
        "class of image",
        "ConvNextForImageClassification",
        {**STAGES, "hidden_sizes": [8, 16, 24, 32]},
    ),
    "resnet": (
        "class of image",
        "ResNetForImageClassification",
        {
            "embedding_size": 8,
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "layer_type": "basic",
            "num_labels": 5,
        },
    ),
    "segformer": (
        "class of image",
        "SegformerForImageClassification",
        {**STAGES, "hidden_sizes": [8, 16, 16, 32]},
    ),
    "clip": ("pairs", "CLIPModel", {"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 16}),
}
DROPPING = (
    *(
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "attention_dropout",
        "hidden_dropout",
        "dropout",
    ),
    *(
        "activation_dropout",
        "resid_pdrop",
        "embd_pdrop",
        "attn_pdrop",
        "classifier_dropout_prob",
        "seq_classif_dropout",
    ),
)
WRITES = ("next word", "text to text", "speech to text")


def build(name, **options):
    _, class_name, made_of = MODELS[name]
    kind = getattr(transformers, class_name)
    config = kind.config_class(**made_of)
    for option in DROPPING:
        if hasattr(config, option):
            setattr(config, option, 0.0)
    config._attn_implementation = options.get("attention")
    return fill(kind(config)).eval()


def given(name):
    purpose = MODELS[name][0]
    words = integers(WORDS - 3, 2, LENGTH) + 3
    left = torch.ones_like(words)
    left[1, :3] = 0
    right = left.flip(1)
    images = normal(2, 3, 32, 32)
    return {
        "next word": {
            "input_ids": words,
            "attention_mask": left,
            "labels": words.masked_fill(left == 0, -100),
        },
        "masked words": {
            "input_ids": words,
            "attention_mask": right,
            "labels": words.masked_fill(right == 0, -100),
        },
        "words in any order": {"input_ids": words, "labels": words},
        "class of text": {"input_ids": words, "attention_mask": right, "labels": torch.tensor([0, 1])},
        "text to text": {"input_ids": words, "attention_mask": right, "labels": words[:, :7].contiguous()},
        "speech to text": {"input_features": normal(2, 8, 40), "labels": words[:, :7].contiguous()},
        "letters of speech": {"input_values": normal(2, 400), "labels": words[:, :5].contiguous()},
        "class of image": {"pixel_values": images, "labels": torch.tensor([1, 3])},
        "pairs": {"input_ids": words, "attention_mask": right, "pixel_values": images, "return_loss": True},
    }[purpose]


def outcome(out):
    return out.logits if hasattr(out, "logits") else out.logits_per_image


def numbers(name):
    """What comes out, the gradients, the losses of four steps, and the words that are written greedily and by three beams."""
    model, inputs = build(name), given(name)
    out = model(**inputs)
    out.loss.backward()
    results = {
        "out": outcome(out),
        "loss": out.loss,
        "gradients": torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]),
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    results["losses"] = np.array(losses)
    model.eval()
    if MODELS[name][0] in WRITES:
        start = {key: value for key, value in inputs.items() if key != "labels"}
        results["greedy"] = model.generate(**start, max_new_tokens=10, do_sample=False)
        rules = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 4}
        results["ruled"] = model.generate(**start, max_new_tokens=10, do_sample=False, **rules)
        if name != "mamba":  # has no beams
            results["beams"] = model.generate(**start, max_new_tokens=10, num_beams=3, do_sample=False)
        with draws(1):
            chances = {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 0.7}
            results["sampled"] = model.generate(**start, max_new_tokens=6, **chances)
    return results


def in_bfloat16(name):
    """Weights saved in bfloat16, loaded by the dtype that the files say."""
    model, inputs = build(name), given(name)
    with tempfile.TemporaryDirectory() as folder:
        model.bfloat16().save_pretrained(folder)
        again = type(model).from_pretrained(folder, dtype="auto").eval()
    assert again.dtype == torch.bfloat16
    halves = {
        key: value.bfloat16() if torch.is_tensor(value) and value.is_floating_point() else value
        for key, value in inputs.items()
    }
    with torch.no_grad():
        return outcome(again(**halves))


for name in MODELS:
    client.case(lambda name=name: numbers(name), name=name)
    if name not in (
        "xlnet",
        "segformer",
    ):  # PyTorch refuses the one's halves, and a convolution in the other's is wrong
        client.case(lambda name=name: in_bfloat16(name), name=f"{name} in bfloat16", tolerance=4e-2)


class Sentences(torch.utils.data.Dataset):
    """Words that count on from a random one."""

    def __init__(self, count):
        starts = np.random.default_rng(0).integers(3, WORDS - LENGTH, count)
        self.words = [torch.arange(start, start + LENGTH) for start in starts]

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.words[index]}


def trainer_in_order(**settings):
    """A Trainer that takes its samples in their order, as no generator is the same in both libraries."""

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *args):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    return InOrder(**settings)


def trained(folder, **options):
    settings = {
        "output_dir": folder,
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "learning_rate": 5e-3,
        "logging_steps": 2,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "warmup_steps": 2,
        "lr_scheduler_type": "cosine",
        **options,
    }
    return trainer_in_order(
        model=build("gpt2"),
        args=transformers.TrainingArguments(**settings),
        train_dataset=Sentences(16),
        eval_dataset=Sentences(8),
    )


def history(trainer):
    shown = ("loss", "eval_loss", "grad_norm", "learning_rate")
    return [{key: entry[key] for key in shown if key in entry} for entry in trainer.state.log_history]


@client.case
def trainer():
    """Two epochs with evaluation, a schedule, checkpoints; then on from the first checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        first = trained(folder)
        first.train()
        before = history(first)
        again = trained(folder)
        again.train(resume_from_checkpoint=os.path.join(folder, "checkpoint-4"))
        return {"first": before, "resumed": history(again)}


@client.case(tolerance=5e-3)
def trainer_with_everything():
    """Accumulation, label smoothing, weights decayed, gradients recomputed, the best model loaded at the end."""
    with tempfile.TemporaryDirectory() as folder:
        result = trained(
            folder,
            gradient_accumulation_steps=2,
            label_smoothing_factor=0.1,
            weight_decay=0.1,
            gradient_checkpointing=True,
            load_best_model_at_end=True,
            max_grad_norm=0.5,
            optim="adafactor",
        )
        result.train()
        out = result.predict(Sentences(4))
        return {"history": history(result), "predictions": out.predictions}


@client.case
def ways_of_attention():
    """One model by matmuls, by `scaled_dot_product_attention`, and by `flex_attention`."""
    results = {}
    for way in ("eager", "sdpa"):
        model = build("llama", attention=way)
        out = model(**given("llama"))
        out.loss.backward()
        results[way] = [out.logits, model.model.layers[0].self_attn.q_proj.weight.grad]
    with torch.no_grad():  # on the CPU PyTorch's has no gradient
        results["flex"] = build("llama", attention="flex_attention")(**given("llama")).logits
    return results


@client.case
def ways_to_generate():
    """Caches of fixed size, another model that guesses ahead, several answers, scores, words that may not come."""
    model = build("llama")
    words = given("llama")["input_ids"]
    start = {
        "input_ids": words,
        "attention_mask": torch.ones_like(words),
        "max_new_tokens": 8,
        "do_sample": False,
    }
    scored = model.generate(**start, return_dict_in_generate=True, output_scores=True, output_logits=True)
    helper = fill(type(model)(model.config), seed=1).eval()
    one = {key: value[:1] if torch.is_tensor(value) else value for key, value in start.items()}
    return {
        "static": model.generate(**start, cache_implementation="static"),
        "without cache": model.generate(**start, use_cache=False),
        "scores": torch.stack(scored.scores),
        "transitions": model.compute_transition_scores(
            scored.sequences, scored.scores, normalize_logits=True
        ),
        "assisted": model.generate(**one, assistant_model=helper),
        "looked up": model.generate(**one, prompt_lookup_num_tokens=3),
        "several": model.generate(
            **start, num_beams=4, num_return_sequences=2, length_penalty=0.6, early_stopping=True
        ),
        "bad words": model.generate(**start, bad_words_ids=[[int(scored.sequences[0, LENGTH])]]),
        "stopped": model.generate(**one, eos_token_id=int(scored.sequences[0, LENGTH + 3])),
    }


@client.case
def files():
    """Shards of safetensors, read whole, through `device_map`, and in part into another head."""
    model = build("bert")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size="20KB")
        shards = len([name for name in os.listdir(folder) if name.endswith(".safetensors")])
        whole = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
        placed = transformers.AutoModelForMaskedLM.from_pretrained(folder, device_map={"": "cpu"}).eval()
        headed, told = transformers.BertForSequenceClassification.from_pretrained(
            folder, output_loading_info=True
        )
    inputs = given("bert")
    return {
        "shards": shards,
        "out": [m(**inputs).logits for m in (model, whole, placed)],
        "missing": sorted(told["missing_keys"]),
        "kept": headed.bert.embeddings.word_embeddings.weight,
    }


@client.case
def text_to_text():
    """A tokeniser made here, and pipelines around small models."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = ["<pad>", "<s>", "</s>", "<unk>", "<mask>", *(f"w{k}" for k in range(WORDS - 5))]
    raw = Tokenizer(models.WordLevel({name: k for k, name in enumerate(names)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
    )
    write = transformers.pipeline("text-generation", model=build("gpt2"), tokenizer=tokenizer, device="cpu")
    fill_in = transformers.pipeline("fill-mask", model=build("bert"), tokenizer=tokenizer, device="cpu")
    told = transformers.pipeline(
        "text-classification", model=build("bert_classes"), tokenizer=tokenizer, device="cpu"
    )
    masked = fill_in("w1 w2 <mask> w4", top_k=3)
    batch = tokenizer(["w1 w2", "w3"], padding=True, return_tensors="pt")
    return {
        "batch": [batch["input_ids"], batch["attention_mask"]],
        "written": write("w1 w2 w3", max_new_tokens=5, do_sample=False)[0]["generated_text"],
        "filled": [[m["token_str"] for m in masked], np.array([m["score"] for m in masked])],
        "class": [told("w5 w6")[0]["label"], told("w5 w6")[0]["score"]],
    }
