"""peft: its adapters on small language models, trained, merged, mixed, saved and loaded; prompts, tokens, quiet and several at once."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import peft
import torch
import transformers
from harness import Client, draws, fill, integers, normal

client = Client("peft", "transformers", "accelerate")

WORDS, LENGTH = 61, 10
SMALL = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TASK = {"task_type": "CAUSAL_LM"}
AT = {**TASK, "target_modules": ["q_proj", "v_proj"]}
# Adapters, and what they are made with.
ADAPTERS = {
    "lora": ("LoraConfig", {**AT, "r": 4, "lora_alpha": 8}),
    "lora_all": ("LoraConfig", {**TASK, "r": 2, "target_modules": "all-linear", "bias": "lora_only"}),
    "lora_scaled": ("LoraConfig", {**AT, "r": 4, "use_rslora": True, "rank_pattern": {"v_proj": 2}}),
    "lora_magnitudes": ("LoraConfig", {**AT, "r": 4, "use_dora": True}),
    "lora_pissa": ("LoraConfig", {**AT, "r": 4, "init_lora_weights": "pissa"}),
    "lora_olora": ("LoraConfig", {**AT, "r": 4, "init_lora_weights": "olora"}),
    "lora_embedded": ("LoraConfig", {**TASK, "r": 4, "target_modules": ["embed_tokens", "q_proj"]}),
    "lora_layers": ("LoraConfig", {**AT, "r": 4, "layers_to_transform": [1], "modules_to_save": ["lm_head"]}),
    "lora_parameters": (
        "LoraConfig",
        {**TASK, "r": 2, "target_modules": [], "target_parameters": ["q_proj.weight"]},
    ),
    "lora_tokens": ("LoraConfig", {**AT, "r": 4, "trainable_token_indices": [3, 5]}),
    "adalora": (
        "AdaLoraConfig",
        {**AT, "init_r": 4, "target_r": 2, "total_step": 10, "tinit": 1, "tfinal": 2},
    ),
    "ia3": (
        "IA3Config",
        {**TASK, "target_modules": ["k_proj", "v_proj", "down_proj"], "feedforward_modules": ["down_proj"]},
    ),
    "loha": ("LoHaConfig", {**AT, "r": 4}),
    "lokr": ("LoKrConfig", {**AT, "r": 4, "decompose_both": True}),
    "oft": ("OFTConfig", {**AT, "oft_block_size": 8}),
    "oft_cayley": ("OFTConfig", {**AT, "oft_block_size": 8, "use_cayley_neumann": False, "coft": True}),
    "boft": ("BOFTConfig", {**AT, "boft_block_size": 8, "boft_n_butterfly_factor": 1}),
    "vera": ("VeraConfig", {**AT, "r": 8}),
    "randlora": ("RandLoraConfig", {**AT, "r": 4}),
    "fourierft": ("FourierFTConfig", {**AT, "n_frequency": 20}),
    "waveft": ("WaveFTConfig", {**AT, "n_frequency": 20}),
    "hra": ("HRAConfig", {**AT, "r": 4}),
    "bone": ("MissConfig", {**AT, "r": 8}),
    "shira": ("ShiraConfig", {**AT, "r": 4}),
    "c3a": ("C3AConfig", {**AT, "block_size": 8}),
    "road": ("RoadConfig", {**AT, "group_size": 8, "variant": "road_2"}),
    "layer_norms": ("LNTuningConfig", {**TASK, "target_modules": ["input_layernorm", "norm"]}),
    "vblora": ("VBLoRAConfig", {**AT, "r": 4, "num_vectors": 12, "vector_length": 8, "topk": 2}),
    "delora": ("DeloraConfig", {**AT, "r": 4}),
    "gralora": ("GraloraConfig", {**AT, "r": 8, "gralora_k": 2}),
    "hira": ("HiraConfig", {**AT, "r": 4}),
    "psoft": ("PsoftConfig", {**AT, "r": 4}),
    "osf": ("OSFConfig", {**AT, "effective_rank": 4}),
    "tokens": ("TrainableTokensConfig", {"token_indices": [2, 7, 9], "target_modules": ["embed_tokens"]}),
    "prefix": ("PrefixTuningConfig", {**TASK, "num_virtual_tokens": 4}),
    "prefix_projected": (
        "PrefixTuningConfig",
        {**TASK, "num_virtual_tokens": 4, "prefix_projection": True, "encoder_hidden_size": 16},
    ),
    "prompt": ("PromptTuningConfig", {**TASK, "num_virtual_tokens": 4}),
    "p_tuning": ("PromptEncoderConfig", {**TASK, "num_virtual_tokens": 4, "encoder_hidden_size": 16}),
    "p_tuning_lstm": (
        "PromptEncoderConfig",
        {
            **TASK,
            "num_virtual_tokens": 4,
            "encoder_hidden_size": 16,
            "encoder_reparameterization_type": "LSTM",
            "encoder_dropout": 0.0,
        },
    ),
    "multitask_prompt": ("MultitaskPromptTuningConfig", {**TASK, "num_virtual_tokens": 4, "num_tasks": 2}),
    "adaption_prompt": ("AdaptionPromptConfig", {**TASK, "adapter_len": 4, "adapter_layers": 2}),
}
BY_TASK = {"multitask_prompt"}  # these want to know which task a sentence belongs to
GIVEN = {"lora_pissa", "lora_olora", "osf", "psoft"}  # these make their weights of the model's


def llama(**options):
    return fill(transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SMALL, **options})))


def trainable(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def summary(tensors):
    """A number of each: the sign and order of singular vectors are nobody's."""
    return np.array([float(t.detach().double().norm()) for t in tensors])


def adapted(name):
    kind, options = ADAPTERS[name]
    with draws():
        model = peft.get_peft_model(llama(), getattr(peft, kind)(**options))
    if name not in GIVEN:
        fill(model)
    return model


def numbers(name):
    """What comes out, gradients, three steps, and what comes out of the model into which the adapter is merged."""
    model = adapted(name).train()
    words = integers(WORDS - 3, 2, LENGTH) + 3
    more = {"task_ids": torch.tensor([0, 1])} if name in BY_TASK else {}
    call = {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": words, **more}
    result, losses = {"trained": sorted(trainable(model))[:4]}, []
    rate = 1e-4 if name == "adalora" else 3e-3  # ranks that it takes away make its gradients large
    optimizer = torch.optim.SGD(trainable(model).values(), lr=rate)
    for step in range(3):
        out = model(**call)
        optimizer.zero_grad()
        out.loss.backward()
        if step == 0:
            result["out"] = out.logits
            gradients = [p.grad for p in trainable(model).values() if p.grad is not None]
            result["gradients"] = summary(gradients)
        optimizer.step()
        if name == "adalora":
            model.base_model.update_and_allocate(step)
        losses.append(out.loss.item())
    result["losses"] = losses
    model.eval()
    with torch.no_grad():
        result["after"] = model(**call).logits
        if hasattr(model.base_model, "merge_and_unload"):
            result["merged"] = model.merge_and_unload()(words).logits
    return result


for name in ADAPTERS:
    client.case(lambda name=name: numbers(name), name=name)


@client.case
def files():
    """Adapters saved, and loaded onto the model they were made on."""
    result, words = {}, integers(WORDS, 1, LENGTH)
    for name in ("lora_layers", "ia3", "prefix", "prompt"):
        model = adapted(name).eval()
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            model.save_pretrained(folder)
            again = peft.PeftModel.from_pretrained(llama(), folder).eval()
            result[name] = [sorted(os.listdir(folder)), model(words).logits, again(words).logits]
    return result


@client.case
def several():
    """Adapters beside one another: chosen, switched off, weighted together, by sentence, deleted."""
    model = peft.get_peft_model(llama(), peft.LoraConfig(**AT, r=4), adapter_name="first")
    model.add_adapter("second", peft.LoraConfig(**AT, r=4, lora_alpha=2))
    model.add_adapter("third", peft.LoraConfig(**TASK, r=2, target_modules=["o_proj"]))
    fill(model).eval()
    words = integers(WORDS, 3, LENGTH)
    results = {}
    with torch.no_grad():
        for name in ("first", "second", "third"):
            model.set_adapter(name)
            results[name] = model(words).logits
        with model.disable_adapter():
            results["none"] = model(words).logits
        for way in ("linear", "cat", "svd", "ties", "dare_linear", "magnitude_prune"):
            more = {} if way in ("linear", "cat", "svd") else {"density": 1.0}
            model.add_weighted_adapter(["first", "second"], [0.7, 0.4], way, combination_type=way, **more)
            model.set_adapter(way)
            results[way] = model(words).logits
        model.set_adapter("first")
        results["by sentence"] = model(words, adapter_names=["first", "second", "__base__"]).logits
        model.delete_adapter("second")
    return {**results, "left": sorted(model.peft_config)}


@client.case
def mixed():
    model = peft.PeftMixedModel(llama(), peft.LoraConfig(**AT, r=4), adapter_name="a")
    model.add_adapter("b", peft.LoHaConfig(**AT, r=2))
    model.set_adapter(["a", "b"])
    fill(model).eval()
    return model(integers(WORDS, 2, LENGTH)).logits


@client.case
def written():
    """Words written with an adapter and with a prompt, greedily."""
    results = {}
    for name in ("lora", "prefix", "prompt"):
        model = adapted(name).eval()
        words = integers(WORDS - 3, 2, 4) + 3
        with torch.no_grad():
            results[name] = model.generate(
                input_ids=words, attention_mask=torch.ones_like(words), max_new_tokens=6, do_sample=False
            )
    return results


@client.case
def classes():
    """A classifier of sentences whose head is trained beside its adapter, by the Trainer."""
    config = transformers.BertConfig(
        **{**SMALL, "bos_token_id": None, "num_labels": 3}, hidden_dropout_prob=0.0
    )
    config.attention_probs_dropout_prob = 0.0
    model = peft.get_peft_model(
        fill(transformers.BertForSequenceClassification(config)),
        peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"]),
    )
    fill(model)
    words, labels = integers(WORDS, 8, LENGTH), integers(3, 8)
    rows = [{"input_ids": w, "labels": y} for w, y in zip(words, labels)]
    with tempfile.TemporaryDirectory() as folder:
        options = transformers.TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            num_train_epochs=2,
            learning_rate=1e-2,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            train_sampling_strategy="sequential",
        )
        trainer = transformers.Trainer(model, options, train_dataset=rows)
        loss = trainer.train().training_loss
    return [loss, model.get_nb_trainable_parameters(), model(words).logits]


@client.case
def convolutions():
    """Adapters of layers that are not linear."""
    results = {}
    for name, make in {
        "lora": lambda: peft.LoraConfig(r=2, target_modules=["0", "3"]),
        "dora": lambda: peft.LoraConfig(r=2, target_modules=["0"], use_dora=True),
        "loha": lambda: peft.LoHaConfig(r=2, target_modules=["0"], use_effective_conv2d=True),
        "lokr": lambda: peft.LoKrConfig(r=2, target_modules=["0"]),
        "oft": lambda: peft.OFTConfig(oft_block_size=3, target_modules=["0"]),
    }.items():
        network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 36, 4),
        )
        model = fill(peft.get_peft_model(network, make()))
        out = model(normal(2, 3, 6, 6))
        out.square().sum().backward()
        results[name] = [
            out,
            summary(p.grad for p in trainable(model).values()),
            model.merge_and_unload()(normal(2, 3, 6, 6)),
        ]
    return results


@client.case
def injected():
    """Adapters put into a model without a wrapper, their states taken out and put in."""
    network = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    model = fill(peft.inject_adapter_in_model(peft.LoraConfig(r=2, target_modules=["0"]), network))
    state = peft.get_peft_model_state_dict(model)
    scaled = {name: 2 * tensor for name, tensor in state.items()}
    before = model(normal(3, 5))
    unexpected = peft.set_peft_model_state_dict(model, scaled).unexpected_keys
    return [sorted(state), before, model(normal(3, 5)), list(unexpected)]
