"""PyTorch's own DDP on the model, data order and hyper-parameters of a lockstep run; started by ddp_against_pytorch.py, one process a rank.

Reads the initial weights from the run's step-0 checkpoint, takes the samples in the order of `data.shuffle = false`, and prints one JSON
document with the losses and the step times.
"""

import argparse
import json
import os
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def read_safetensors(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    body = memoryview(raw)[8 + size :]
    types = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], dtype=types[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width)})
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.attention["qkv"](self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.attention["out"](mixed)
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """The GPT of lockstep's `nn` (untied), with its parameter names."""

    def __init__(self, layers, width, heads, context, vocab):
        super().__init__()
        self.embedding = nn.ModuleDict({"token": nn.Embedding(vocab, width), "position": nn.Embedding(context, width)})
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.norm = nn.LayerNorm(width)

    def forward(self, ids, targets):
        x = self.embedding["token"](ids) + self.embedding["position"].weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.head.norm(x)).flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="JSON written by ddp_against_pytorch.py")
    spec = json.loads(pathlib.Path(parser.parse_args().spec).read_text())

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()

    model = Gpt(spec["layers"], spec["width"], spec["heads"], spec["context"], spec["vocab"])
    weights = {}
    for shard in sorted(pathlib.Path(spec["checkpoint"]).glob("*.safetensors")):
        weights.update(read_safetensors(shard))
    model.load_state_dict({name: torch.from_numpy(weights[name].copy()) for name in model.state_dict()})
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=spec["lr"], betas=spec["betas"], eps=spec["eps"], weight_decay=spec["weight_decay"],
                                  fused=True)

    tokens = np.memmap(spec["tokens"], dtype=np.uint8, mode="r", offset=spec["token_offset"])
    sequence, micro = spec["sequence"], spec["global_batch"] // world
    losses, seconds = [], []
    for step in range(spec["steps"]):
        start = time.perf_counter()
        first = step * spec["global_batch"] + rank * micro
        rows = np.stack([tokens[i * sequence : i * sequence + sequence + 1] for i in range(first, first + micro)]).astype(np.int64)
        batch = torch.from_numpy(rows)
        loss = ddp(batch[:, :-1], batch[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / world)
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        pathlib.Path(spec["result"]).write_text(json.dumps({"loss": losses, "seconds": seconds, "cpu_seconds": time.process_time()}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
