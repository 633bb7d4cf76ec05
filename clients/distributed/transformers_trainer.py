"""transformers' Trainer on several processes, with a small BERT and a small GPT-2 made here: evaluation, checkpoints, going on from one.

torchrun --nproc-per-node N transformers_trainer.py
torchrun --nproc-per-node N transformers_trainer.py fsdp
"""

import os
import sys
import tempfile
import warnings

import numpy as np
import torch
import torch.distributed as dist
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

warnings.filterwarnings("ignore")


class Sentences(torch.utils.data.Dataset):
    """Numbers for words; the label says whether the first is greater than the last."""

    def __init__(self, count, seed, generative):
        generator = torch.Generator().manual_seed(seed)
        self.words = torch.randint(1, 30, (count, 10), generator=generator)
        self.generative = generative

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        words = self.words[index]
        labels = words if self.generative else (words[0] > words[-1]).long()
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": labels}


def bert():
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip


def gpt2():
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=30, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip


class Report(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **others):
        shown = ("loss", "eval_loss", "eval_accuracy", "grad_norm", "learning_rate")
        if state.is_world_process_zero:
            losses = {name: f"{float(logs[name]):.5f}" for name in shown if name in logs}
            if losses:
                print("step", state.global_step, losses, flush=True)


def accuracy(prediction):
    return {"accuracy": float((np.argmax(prediction.predictions, -1) == prediction.label_ids).mean())}


def fit(make, folder, generative, steps, resume=None, **options):
    set_seed(11)
    size = int(os.environ.get("WORLD_SIZE", "1"))
    arguments = TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        max_steps=steps,
        per_device_train_batch_size=8 // size,
        per_device_eval_batch_size=4,
        learning_rate=5e-3,
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=4,
        save_steps=4,
        report_to=[],
        disable_tqdm=True,
        seed=11,
        ddp_backend="gloo",
        **options,
    )
    trainer = Trainer(
        model=make(),
        args=arguments,
        train_dataset=Sentences(64, 0, generative),
        eval_dataset=Sentences(18, 1, generative),
        compute_metrics=None if generative else accuracy,
        callbacks=[Report()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    if trainer.is_world_process_zero():
        print("files", sorted(name for name in os.listdir(folder)), flush=True)
    return trainer


def main(fsdp):
    folder = tempfile.mkdtemp()
    if dist.is_available() and "RANK" in os.environ:
        dist.init_process_group("gloo")
        shared = [folder]
        dist.broadcast_object_list(shared)
        folder = shared[0]
    options = {"fsdp": "full_shard auto_wrap", "fsdp_config": FSDP} if fsdp else {}
    fit(bert, os.path.join(folder, "bert"), False, 8, **options)
    fit(gpt2, os.path.join(folder, "gpt2"), True, 8, **options)
    last = os.path.join(folder, "gpt2", "checkpoint-4")
    fit(gpt2, os.path.join(folder, "gpt2"), True, 8, resume=last, **options)


FSDP = {
    "transformer_layer_cls_to_wrap": ["BertLayer", "GPT2Block"],
    "cpu_ram_efficient_loading": False,
    "use_orig_params": True,
}

if __name__ == "__main__":
    main("fsdp" in sys.argv[1:])
    if dist.is_initialized():
        dist.destroy_process_group()
