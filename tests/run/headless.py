# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO

import pytest


def browser() -> str | None:
    """Its program; None: there is none here."""
    return next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)


def needed() -> None:
    """Skips the test that asks where there is no browser; in CI, which installs one, that is a failure.

    Raises:
        AssertionError: There is none, and this is CI.
    """
    if browser() is None:
        assert not os.environ.get("CI"), (
            "CI has no Chromium: tools/setup/apt_packages.txt names chromium-headless-shell"
        )
        pytest.skip("there is no Chromium here")


def options(profile: Path | str) -> list[str]:
    """Of a start whose profile is a folder of its own."""
    return ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]


def document(page: Path, fragment: str = "") -> str:
    """The page's document after its scripts have run, for an address with this fragment."""
    program = browser()
    assert program is not None
    done = subprocess.run(
        [
            *[program, *options(page.parent / "profile")],
            *["--virtual-time-budget=4000", "--dump-dom", f"file://{page}{fragment}"],
        ],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert 'data-ready="1"' in done.stdout, done.stderr[-2000:]
    return done.stdout


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a browser that was started in a session of its own: Debian's program is a shell script around it."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Page:
    """A page that is driven as a user does, by the protocol of Chromium's developer tools over two pipes."""

    def __init__(self, path: Path) -> None:
        program = browser()
        assert program is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (read, theirs), (ours, write) = os.pipe(), os.pipe()
        # The browser reads its descriptor 3 and writes 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{read} 4>&{write}', program, *options(self._profile.name), "--window-size=1600,1000", "--remote-debugging-pipe"],
            pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(read)
        os.close(write)
        self._to: BinaryIO = os.fdopen(theirs, "wb", buffering=0)
        self._from: BinaryIO = os.fdopen(ours, "rb")
        self._number = 0
        self._session = ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._ask("Page.navigate", url=f"file://{path}")
        end = time.monotonic() + 60
        while self.value("document.body && document.body.dataset.ready") != "1":
            assert time.monotonic() < end, "the page is not ready"
            time.sleep(0.02)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)
        self._to.close()
        self._from.close()
        self._profile.cleanup()

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        while True:
            text = b""
            while not text.endswith(b"\0"):
                read = self._from.read(1)
                assert read, "Chromium has ended"
                text += read
            answer = json.loads(text[:-1])
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def value(self, script: str) -> Any:
        """What an expression of JavaScript gives in the page."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until an expression is true: what the page does by itself, such as unpacking, has been done."""
        end = time.monotonic() + 30
        while not self.value(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.01)

    def mouse(self, row: str, click: bool = False) -> None:
        """Moves the mouse to an element that `document.querySelector` finds, and clicks."""
        at = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(row)}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.left + Math.min(20, r.width / 2), r.top + r.height / 2]; })()"
        )
        for kind in ("mouseMoved", *(("mousePressed", "mouseReleased") if click else ())):
            self._ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=at[0],
                y=at[1],
                button="left" if click else "none",
                clickCount=1,
            )

    def keys(self, *keys: str) -> None:
        """Presses keys, one after the other."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            self._ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self._ask("Input.dispatchKeyEvent", type="keyUp", key=key)
