# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while compiling: KeyboardInterrupt, and a process in which compiling works."""

from __future__ import annotations

import os
import subprocess
import sys

_SCRIPT = """
import os, random, signal, sys, threading, time
import torch
import straightline as sl
from torch import nn
from torch.fx.proxy import TracerBase

# A job started in the background inherits an ignored SIGINT; this test is about one that is not.
signal.signal(signal.SIGINT, signal.default_int_handler)
seed = int(sys.argv[1])
generator = random.Random(seed)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)).eval()
x = torch.randn(1, 1, 8, 8)
before = (torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled(), TracerBase._filter_traceback_frames)
start = time.monotonic()
sl.compile(model, (x,), cache=False)
whole = time.monotonic() - start
interrupted = 0
for _ in range(12):
    timer = threading.Timer(generator.uniform(0, whole), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        sl.compile(model, (x,), cache=False)
        for _ in range(1000):
            time.sleep(0.01)
    except KeyboardInterrupt:
        interrupted += 1
    timer.join()
after = (torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled(), TracerBase._filter_traceback_frames)
assert after == before, (before, after)
with torch.no_grad():
    torch.testing.assert_close(sl.compile(model, (x,))(x), model(x), rtol=1e-4, atol=1e-5)
print("interrupted", interrupted)
"""


def test_interrupt() -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(seed)], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "interrupted 12"
