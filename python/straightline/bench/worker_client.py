# SPDX-License-Identifier: Apache-2.0
"""The parent's end of a worker: requests with a time limit; a worker that hangs is killed, and a crash is reported."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import straightline

_QUIT_S = 5.0
_LOG_LINES = 3


class WorkerGone(Exception):
    """The worker did not answer: it crashed, or it was killed because its time was up.

    Attributes:
        kind: "crashed" or "timed out".
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class WorkerClient:
    """One worker process, in a process group of its own, so that what it starts (compilers) ends with it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = tempfile.TemporaryFile(dir=folder)
        package = str(Path(straightline.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "straightline.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": path, **environment},
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)
        self._unread = b""

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def ask(self, limit_s: float, do: str, **request: Any) -> dict[str, Any]:
        """Sends a request and waits for the answer.

        Raises:
            WorkerGone: There is none; the process has ended.
        """
        try:
            self._requests.write((json.dumps({"do": do, **request}) + "\n").encode())
            self._requests.flush()
        except OSError:
            raise self._crash(do) from None
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0:
                self.kill()
                raise WorkerGone("timed out", f"{do} took more than {limit_s:g} s and was killed")
            if self._selector.select(left):
                data = os.read(self._answers.fileno(), 1 << 16)
                if not data:
                    raise self._crash(do)
                self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process and all that it started."""
        try:
            self._requests.write(b'{"do": "quit"}\n')
            self._requests.close()
            self._process.wait(_QUIT_S)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            pass
        self.kill()

    def kill(self) -> None:
        """Ends it at once."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        with contextlib.suppress(OSError):  # what was not sent is lost
            self._requests.close()
        self._selector.close()
        self._answers.close()
        self._log.close()

    def _crash(self, do: str) -> WorkerGone:
        try:
            status = self._process.wait(_QUIT_S)
        except subprocess.TimeoutExpired:  # it closed its pipe and lives on
            self._process.kill()
            status = self._process.wait()
        how = f"with {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
        self._log.seek(0)
        lines = [line for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        tail = f": {' | '.join(lines[-_LOG_LINES:])}" if lines else ""
        self.kill()
        return WorkerGone("crashed", f"its process ended {how} during {do}{tail}")
