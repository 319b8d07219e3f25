"""A small W&B server for tests, in this process: it answers what the real client needs.

with wandb_server() as server:
    environment = server.environment(HOME=...)     # for processes that use the client
    server.fail_with(500); server.hang(); server.die(); server.heal()
    server.runs["0123456789abcdef"].rows
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from wandb_graphql import Backend, GraphQLError, StoredRun
from wandb_views import Views

API_KEY = "local-" + "5ec7e7" * 7
"""A key in the form that the client accepts: a prefix and at least forty characters."""


@contextlib.contextmanager
def wandb_server() -> Iterator[WandbServer]:
    """A server that listens until the block is left."""
    server = WandbServer()
    try:
        yield server
    finally:
        server.close()


def log_in(server: WandbServer, home: Path, patch: pytest.MonkeyPatch) -> None:
    """Log this process in, and those that it starts, with a home folder of their own."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        patch.delenv(name)
    for name, value in server.environment(HOME=str(home)).items():
        patch.setenv(name, value)


class WandbServer:
    """The server and its faults.

    Attributes:
        keys: API keys that requests came with.
    """

    def __init__(self) -> None:
        self.backend = Backend(self._upload_url, lambda: self.url)
        self.keys: set[str] = set()
        self._status = 0
        self._status_if: Callable[[str, str], bool] = lambda path, body: True
        self._open = threading.Event()
        self._open.set()
        self._connections: set[socket.socket] = set()
        self._http: ThreadingHTTPServer | None = None
        # Bound and never listening: while the server is dead, no other process gets its port.
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._kept.bind(("127.0.0.1", 0))
        self._port: int = self._kept.getsockname()[1]
        self._listen()

    @property
    def url(self) -> str:
        """Its address for clients, as in `WANDB_BASE_URL`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def runs(self) -> dict[str, StoredRun]:
        """The runs that were uploaded, by run id."""
        return self.backend.runs

    @property
    def run(self) -> StoredRun:
        """The only run."""
        (run,) = self.runs.values()
        return run

    @property
    def pages(self) -> Views:
        """Projects, reports and artifacts."""
        return self.backend.pages

    @property
    def unknown(self) -> list[str]:
        """GraphQL operations that the client asked for and this server does not know."""
        return self.backend.unknown

    def environment(self, **extra: str) -> dict[str, str]:
        """Variables of a process that is logged in here, and `extra`.

        The client sends and repeats every second, not every 15 s or more; it takes whole seconds
        only.
        """
        quick = {
            f"WANDB__{name}": "1"
            for part in ("FILE_STREAM", "GRAPHQL", "FILE_TRANSFER")
            for name in (f"{part}_RETRY_WAIT_MIN_SECONDS", f"{part}_RETRY_WAIT_MAX_SECONDS")
        }
        return {
            "WANDB_BASE_URL": self.url,
            "WANDB_API_KEY": API_KEY,
            "WANDB_ERROR_REPORTING": "false",
            "WANDB__FILE_STREAM_TRANSMIT_INTERVAL": "1",
            **quick,
            **extra,
        }

    def fail_with(
        self, status: int, when: Callable[[str, str], bool] = lambda path, body: True
    ) -> None:
        """Answer every request for which `when(path, body)` holds with this status."""
        self._status, self._status_if = status, when

    def hang(self) -> None:
        """Accept requests and never answer, until `heal` or `die`."""
        self._open.clear()

    def die(self) -> None:
        """Close the listening socket and every connection, in the middle of whatever they do."""
        if self._http is None:
            return
        self._http.shutdown()
        self._http.server_close()
        self._http = None
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.set()

    def close(self) -> None:
        """Die for ever."""
        self.die()
        self._kept.close()

    def heal(self) -> None:
        """Work again, at the same address and with everything that was stored."""
        self._status = 0
        self._open.set()
        if self._http is None:
            self._listen()

    def _listen(self) -> None:
        self._http = _Http(("127.0.0.1", self._port), _handler_of(self))
        threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="wandb server", daemon=True
        ).start()

    def _upload_url(self, run: StoredRun, name: str) -> str:
        return f"{self.url}/upload/{run.name}/{name}"

    def _respond(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Status and JSON of one request."""
        self._open.wait()
        if self._status and self._status_if(path, body.decode("utf-8", "replace")):
            return self._status, {"error": "as the test asked for"}
        parts = path.strip("/").split("/")
        if path == "/graphql":
            return self._graphql(json.loads(body))
        if parts[-1] == "file_stream" and (run := self.runs.get(parts[-2])):
            with self.backend.lock:
                run.stream(json.loads(body))
                return 200, {}
        if parts[0] == "upload" and method == "PUT" and (run := self.runs.get(parts[1])):
            run.files["/".join(parts[2:])] = body
            return 200, {}
        if parts[0] == "artifact" and method == "PUT":
            with self.backend.lock:
                self.backend.pages.upload(parts[1], "/".join(parts[2:]), body)
                return 200, {}
        return 404, {"error": f"{method} {path} is not known here"}

    def _graphql(self, document: dict[str, Any]) -> tuple[int, Any]:
        try:
            return 200, {
                "data": self.backend.answer(document["query"], document.get("variables") or {})
            }
        except GraphQLError as error:
            return error.status, {"data": None, "errors": [{"message": str(error)}]}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_port = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that `die` or the client closed."""


def _handler_of(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            server._connections.add(self.connection)

        def finish(self) -> None:
            server._connections.discard(self.connection)
            super().finish()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            scheme, _, credentials = (self.headers.get("Authorization") or "").partition(" ")
            if scheme == "Basic":
                server.keys.add(base64.b64decode(credentials).decode().partition(":")[2])
            status, document = server._respond(self.command, self.path, body)
            answer = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing on the terminal."""

    return Handler
