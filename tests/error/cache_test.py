# SPDX-License-Identifier: Apache-2.0
"""The disk cache when it is damaged, cannot be written, is off; its functions and its command."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import straightline as sl
import torch

X = torch.arange(6, dtype=torch.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test."""
    place = tmp_path / "cache"
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(place))
    return place


def works() -> None:
    torch.testing.assert_close(sl.compile(lambda x: torch.tanh(x) + 1, (X,))(X), torch.tanh(X) + 1)


def flip(data: bytearray, random_bit: random.Random) -> None:
    data[random_bit.randrange(len(data))] ^= 1 << random_bit.randrange(8)


def shorten(data: bytearray, random_place: random.Random) -> None:
    del data[random_place.randrange(len(data)) :]


def replace(data: bytearray, random_bytes: random.Random) -> None:
    data[:] = random_bytes.randbytes(100)


@pytest.mark.parametrize("damage", [flip, shorten, replace], ids=lambda damage: damage.__name__)
def test_damaged_entries(damage: Callable[[bytearray, random.Random], None], folder: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    generator = random.Random(seed)
    works()
    entries = sorted(path for path in folder.iterdir() if path.is_file())
    assert entries
    whole = {path: path.read_bytes() for path in entries}
    for round in range(5):
        for path in entries:
            data = bytearray(whole[path])
            damage(data, generator)
            path.write_bytes(data)
        before = sl.cache_info()
        with pytest.warns(sl.CacheWarning, match="damaged cache entry deleted and compiled anew"):
            works()
        after = sl.cache_info()
        assert after.damaged - before.damaged == len(entries), round
        assert after.stored - before.stored == len(entries)
        assert {path: path.read_bytes() for path in entries} == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        works()


def test_an_entry_that_is_a_folder(folder: Path) -> None:
    works()
    for path in list(folder.iterdir()):
        path.unlink()
        path.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sl.CacheWarning)
        works()


def test_folder_that_cannot_be_made(folder: Path) -> None:
    folder.write_text("a file stands where the folder should be")
    with pytest.warns(sl.CacheWarning, match=f"compilation cache is off: cannot make {folder}"):
        works()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # told once
        works()
    assert folder.read_text().startswith("a file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_cannot_be_written(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o500)
    with pytest.warns(sl.CacheWarning, match=f"compilation cache is off: cannot write in {folder}"):
        works()


def test_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", "")
    works()
    assert str(sl.cache_info()) == "the cache is off"
    assert sl.clear_cache() == 0
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(folder))
    sl.compile(lambda x: x * 3, (X,), cache=False)
    assert not folder.exists()


def test_cap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("many", "-1", "1.5", "9" * 30):
        monkeypatch.setenv("STRAIGHTLINE_CACHE_MAX_MB", value)
        with pytest.raises(
            sl.UserError, match=f"STRAIGHTLINE_CACHE_MAX_MB is '{value}'; valid are a number of megabytes"
        ):
            works()
    monkeypatch.setenv("STRAIGHTLINE_CACHE_MAX_MB", "7")
    works()
    assert sl.cache_info().bytes_max == 7 << 20


def test_info_and_clear(folder: Path) -> None:
    assert sl.cache_info().bytes_used == 0
    works()
    info = sl.cache_info()
    assert info.directory == str(folder) and info.stored > 0
    assert info.bytes_used == sum(path.stat().st_size for path in folder.iterdir())
    before = info.hits
    works()
    assert sl.cache_info().hits > before
    assert sl.clear_cache() == info.stored
    assert sl.cache_info().bytes_used == 0
    works()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "straightline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_command(folder: Path) -> None:
    works()
    shown = run("cache")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[0] == str(folder) and "MiB of at most 512 MiB" in shown.stdout
    assert run("cache", "info").stdout == shown.stdout
    cleared = run("cache", "clear")
    assert cleared.returncode == 0 and cleared.stdout.startswith("deleted ") and str(folder) in cleared.stdout
    assert not list(folder.iterdir())
    assert run("cache", "nonsense").returncode == 2
    assert run().returncode == 2
