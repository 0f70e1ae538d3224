# SPDX-License-Identifier: Apache-2.0
"""Runs each file of suite/ on the device of examples/backend_device, in a process that has nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/plugins"))

from builds import example  # noqa: E402


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example("device", tmp_path_factory.mktemp("device"))


def _environment(library: Path, **more: str) -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return {
        **os.environ,
        "PYTHONPATH": paths,
        "STRAIGHTLINE_BACKEND_PATH": str(library),
        "STRAIGHTLINE_TEST_DEVICE": str(library),
        "SIM_DEVICE_OPTIMIZE": "-O1",  # a third less of clang for each of hundreds of kernels
        **more,
    }


@pytest.mark.parametrize("name", sorted(path.name for path in (HERE / "suite").glob("*_test.py")))
def test_suite(library: Path, name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(HERE / "suite" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=_environment(library))
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def _python(library: Path, text: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", text]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(library, **more))


def test_torch_imported_first_and_last(library: Path) -> None:
    for text in (
        "import torch; import straightline.torch_device; print(torch.zeros(2, device='sl').device)",
        "import straightline.torch_device, torch; print(torch.zeros(2, device='sl').device)",
    ):
        done = _python(library, text)
        assert done.stdout.strip() == "sl:0", done.stderr


def test_torch_alone_where_the_variable_names_the_plugin(library: Path) -> None:
    done = _python(library, "import torch; print(torch.zeros(2, device='sl').device)", STRAIGHTLINE_DEVICE="sim")
    assert done.stdout.strip() == "sl:0", done.stderr
    done = _python(library, "import torch; print(torch._C._get_privateuse1_backend_name())")
    assert done.stdout.strip() == "privateuseone"


def test_torch_alone_imports_one_small_module(library: Path) -> None:
    """The entry point is called at each `import torch`; without the variable it brings nothing of the package."""
    text = "import sys, torch; print(sorted(name for name in sys.modules if name.startswith('straightline')))"
    for more in ({}, {"STRAIGHTLINE_DEVICE": ""}):
        done = _python(library, text, **more)
        assert done.stdout.strip() == "['straightline_torch_autoload']", done.stderr
    done = _python(library, text, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        (
            "import straightline.torch_device",
            {"STRAIGHTLINE_DEVICE": "other"},
            "STRAIGHTLINE_DEVICE is 'other' but the plug-in with a device is 'sim'",
        ),
        (
            "import straightline.torch_device",
            {"STRAIGHTLINE_BACKEND_PATH": ""},
            "no plug-in with a device is open: name a plug-in's file in STRAIGHTLINE_BACKEND_PATH",
        ),
        (
            "import torch; torch.utils.rename_privateuse1_backend('npu'); import straightline.torch_device",
            {},
            "torch's device PrivateUse1 is 'npu' (another package) and cannot be 'sl' (straightline.torch_device) too",
        ),
        (
            "import straightline.torch_device",
            {"STRAIGHTLINE_DEVICE_PREBUILT": "0", "CXX": "no-such-compiler"},
            "CXX is 'no-such-compiler', which is no program",
        ),
        (
            "import straightline.torch_device",
            {"STRAIGHTLINE_DEVICE_PREBUILT": "no"},
            "STRAIGHTLINE_DEVICE_PREBUILT is 'no' but must be 0 (build torch's device here) or 1",
        ),
        (
            "import straightline.torch_device",
            {"STRAIGHTLINE_DEVICE_PROGRAMS": "none"},
            "STRAIGHTLINE_DEVICE_PROGRAMS is 'none' but must be a number from 1 on",
        ),
    ],
)
def test_what_cannot_be_registered(library: Path, text: str, more: dict[str, str], words: str) -> None:
    done = _python(library, text, **more)
    assert done.returncode == 1
    assert words in done.stderr


def test_without_a_compiler_words_say_what_to_install(library: Path, tmp_path: Path) -> None:
    done = _python(
        library, "import straightline.torch_device", PATH=str(tmp_path), CXX="", STRAIGHTLINE_DEVICE_PREBUILT="0"
    )
    assert done.returncode == 1
    assert "install g++ (Debian: apt-get install g++), or name one in CXX" in done.stderr


def test_a_binary_for_another_torch_is_not_taken(library: Path, tmp_path: Path) -> None:
    """Each thing that a binary goes by: where one differs, the device is built here, for which there is no compiler."""
    text = f"""
import json, pathlib, sys
import torch
from straightline import cache
import importlib.util
folder = pathlib.Path(importlib.util.find_spec("straightline").submodule_search_locations[0]) / "torch_device"
found = json.loads((folder / "_straightline_torch_device.json").read_text())
spec = importlib.util.spec_from_file_location("_prebuilt", folder / "_prebuilt.py")
known = importlib.util.module_from_spec(spec)
spec.loader.exec_module(known)
abi = pathlib.Path({str(ROOT / "runtime/abi")!r})
same = known.description(pathlib.Path(torch.__file__).parent, abi)
assert same == found, (same, found)
other = pathlib.Path({str(tmp_path)!r})
(other / "version.py").write_text("__version__ = '2.99.0+cpu'\\ngit_version = 'abc'\\n")
(other / "new.h").write_text("")
unlike = known.description(other, other)
print({{name for name in same if same[name] != unlike[name]}} == {{"torch", "torch_commit", "abi"}}, unlike["torch"])
"""
    done = _python(library, text)
    assert done.stdout.strip() == "True 2.99.0", done.stderr


def test_the_host_runs_ops_where_a_rule_says_so(library: Path) -> None:
    text = """
import torch, straightline.torch_device
x = torch.tensor([3.0, 1.0, 3.0], device="sl")
print(x.unique().tolist(), x.unique().device, [row for row in torch.sl.op_counts() if row["route"] == "cpu"])
"""
    done = _python(library, text, STRAIGHTLINE_ROUTE_ALL="auto, cpu")
    assert done.stdout.startswith("[1.0, 3.0] sl:0 [{'op': 'aten::_unique2', 'route': 'cpu', 'calls': 2"), done.stderr
    done = _python(library, text)
    assert "NotImplementedError: aten::_unique2 cannot run on sl" in done.stderr


_LOADER = """
import sys, torch, straightline.torch_device
x = torch.randn(8, 3, device="sl")
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return x[i % 4] if sys.argv[1] == "views" else (x if sys.argv[1] == "made before" else torch.randn(4, 3, device="sl"))[i % 4] * 2
if __name__ == "__main__":
    (x + 1).cpu()
    how = {"multiprocessing_context": sys.argv[2]}
    print(sum(len(rows) for rows in torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2, collate_fn=None if sys.argv[1] == "views" else lambda rows: [r.cpu() for r in rows], **how)))
"""


@pytest.mark.parametrize("which", ["made before", "made there", "views"])
def test_a_forked_worker_is_refused_in_words(library: Path, tmp_path: Path, which: str) -> None:
    """It lacks the threads of the device's queues, and would wait for ever."""
    script = tmp_path / "loader.py"
    script.write_text(_LOADER)
    command = [sys.executable, str(script), which, "fork"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(library), timeout=240)
    assert done.returncode != 0
    assert "device 'sl:0' cannot be used in process" in done.stderr, done.stderr[-2000:]
    assert "multiprocessing_context=" in done.stderr


def test_a_process_that_was_forked_before_the_first_use(library: Path) -> None:
    text = """
import os, torch, straightline.torch_device
child = os.fork()
os.write(1, b"%r\\n" % (torch.ones(2, device="sl") + 1).cpu().sum().item())  # at once: both processes write
if child:
    os.waitpid(child, 0)
os._exit(0)
"""
    done = _python(library, text)
    assert done.stdout.split() == ["4.0", "4.0"], done.stderr
