"""What torch-1.13-list.json.gz was recorded from, by a build of PyTorch without Kineto (Debian's python3-torch)."""

import torch
from torch.profiler import ProfilerActivity, profile, record_function

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.ones(128, 64)
torch.set_num_threads(1)
model(x).sum().backward()
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for _ in range(2):
        with record_function("train#tracekit=phase#"):  # as tracekit.phase marks it
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        profiler.step()
profiler.export_chrome_trace("torch-1.13-list.json")
