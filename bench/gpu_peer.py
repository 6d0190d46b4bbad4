#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures torch.distributed's allreduce of float32 on CUDA tensors, for bench/gpu. kolorun starts
it, one process per rank: gpu_peer.py BACKEND SECONDS BYTES... Rank 0 prints a line of JSON for each
size. As in kolobench, a time is the median over the samples of the slowest rank's time."""
import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist


def sample(tensor, calls):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / calls * 1e6


def slowest(values, device):
    shared = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return shared.tolist()


def main():
    backend, seconds, sizes = sys.argv[1], float(sys.argv[2]), list(map(int, sys.argv[3:]))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=120))
    for size in sizes:
        tensor = torch.zeros(max(1, size // 4), device=device)
        guess = slowest([min(sample(tensor, 1) for _ in range(2))], device)[0]
        samples = max(3, min(2000, int(seconds * 1e6 / guess)))
        times = slowest([sample(tensor, 1) for _ in range(samples)], device)
        if dist.get_rank() == 0:
            print(json.dumps({"bytes": tensor.numel() * 4, "time_us": statistics.median(times), "samples": samples}), flush=True)
    dist.destroy_process_group()


main()
