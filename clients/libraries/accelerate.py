"""accelerate: the loop it prepares, accumulation, half precision, states saved and resumed, models too large for memory at once."""

import os
import tempfile

import accelerate
import numpy as np
import torch
from harness import Client, fill, integers, normal

client = Client("accelerate")


def network():
    return fill(torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)))


def batches(size=4):
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(normal(24, 6), integers(3, 24)), batch_size=size
    )


def prepared(**options):
    accelerate.state.AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator(cpu=True, **options)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=40)
    return accelerator, *accelerator.prepare(model, optimizer, batches(), schedule)


def epoch(accelerator, model, optimizer, loader, schedule):
    losses = []
    for x, labels in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(x), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(accelerator.gather_for_metrics(loss.detach()).item())
    return np.array(losses)


@client.case
def loop():
    parts = prepared()
    rounds = [epoch(*parts) for _ in range(3)]
    return [rounds, parts[2].param_groups[0]["lr"], str(parts[0].device), parts[0].num_processes]


@client.case
def accumulation():
    return [epoch(*prepared(gradient_accumulation_steps=3)) for _ in range(2)]


@client.case(tolerance=3e-2)
def half_precision():
    return epoch(*prepared(mixed_precision="bf16"))


@client.case
def states():
    """Saved after an epoch, and gone on from in another process's place."""
    with tempfile.TemporaryDirectory() as folder:
        parts = prepared()
        epoch(*parts)
        parts[0].save_state(folder)
        onward = epoch(*parts)
        again = prepared()
        again[0].load_state(folder)
        resumed = epoch(*again)
        names = sorted(os.listdir(folder))
        again[0].save_model(again[1], folder + "/model", max_shard_size="1KB")
        shards = sorted(os.listdir(folder + "/model"))
    return [onward, resumed, names, shards]


@client.case
def skipped():
    parts = prepared()
    return epoch(*parts[:3], parts[0].skip_first_batches(parts[3], 2), parts[4])


@client.case
def large_models():
    """Made without memory, then filled from a file, by parts kept on disk or fetched to where they are used."""
    whole = network()
    with tempfile.TemporaryDirectory() as folder:
        accelerate.Accelerator(cpu=True).save_model(whole, folder)
        with accelerate.init_empty_weights():
            empty = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        devices = {p.device.type for p in empty.parameters()}
        places = accelerate.infer_auto_device_map(empty, max_memory={"cpu": 600})
        filled = accelerate.load_checkpoint_and_dispatch(
            empty, folder + "/model.safetensors", device_map={"": "cpu"}, offload_folder=folder + "/kept"
        )
        loaded = filled(normal(4, 6))
        on_disk = accelerate.disk_offload(network(), folder + "/disk", execution_device="cpu")(normal(4, 6))
        fetched = accelerate.cpu_offload(network(), execution_device="cpu")(normal(4, 6))
    with accelerate.init_on_device(torch.device("meta")):
        nowhere = torch.nn.Linear(3, 3)
    return [
        sorted(devices),
        dict(places),
        whole(normal(4, 6)),
        loaded,
        on_disk,
        fetched,
        nowhere.weight.device.type,
    ]


@client.case
def hooks():
    """What is added before and after a module's forward."""

    class Doubled(accelerate.hooks.ModelHook):
        def pre_forward(self, module, *args, **kwargs):
            return tuple(2 * x for x in args), kwargs

        def post_forward(self, module, output):
            return output + 1

    model = network()
    accelerate.hooks.add_hook_to_module(model, Doubled())
    with_hook = model(normal(4, 6))
    accelerate.hooks.remove_hook_from_module(model)
    return [with_hook, model(normal(4, 6))]


@client.case
def numbers_of_models():
    """Sizes by dtype, tied parameters, tensors sent, padded and gathered in nested structures."""
    from accelerate import utils

    model = network()
    model[2].weight = torch.nn.Parameter(model[0].weight[:3, :1].detach().clone().expand(3, 16).contiguous())
    nested = {"a": [normal(2, 3), (normal(1),)], "b": "text"}
    sent = utils.send_to_device(nested, "cpu")
    return [
        utils.compute_module_sizes(model),
        utils.find_tied_parameters(model),
        sent,
        utils.pad_across_processes(normal(2, 3), dim=1),
        utils.concatenate([{"x": normal(2, 2)}, {"x": normal(1, 2)}]),
        utils.convert_to_fp32({"x": normal(2).half()}),
        utils.find_batch_size(nested),
        utils.get_data_structure({"x": normal(2, 2)})["x"].shape,
    ]


@client.case
def smaller_batches():
    """A function that is called with half the batch where memory runs out."""
    tried = []

    @accelerate.utils.find_executable_batch_size(starting_batch_size=16)
    def run(batch_size):
        tried.append(batch_size)
        if batch_size > 4:
            raise RuntimeError("CUDA out of memory.")
        return batch_size

    return [run(), np.array(tried)]


@client.case
def apart():
    """A local optimiser step with gradients kept apart (`no_sync`), seeds, and what only one process does."""
    accelerator, model, optimizer, loader, schedule = prepared()
    accelerate.utils.set_seed(3)
    with accelerator.no_sync(model):
        accelerator.backward(model(normal(4, 6)).square().mean())
    norm = accelerator.clip_grad_value_(model.parameters(), 0.1)
    unwrapped = accelerator.unwrap_model(model)
    return [
        accelerator.is_main_process,
        norm,
        [p.grad for p in model.parameters()],
        unwrapped is model,
        accelerator.get_state_dict(model),
    ]
