"""Firefox by WebDriver BiDi.

Not by Playwright, whose channel for the system's Firefox (`moz-firefox`) sends the command
`emulation.setMediaFeaturesOverride` for every page, which Firefox lacks (tried: Playwright 1.65,
Firefox ESR 153).
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser_engine import TIMEOUT_S, BrowserError, Seen
from websockets.sync.client import ClientConnection, connect

FLAGS = (
    "--headless",
    "--no-remote",
    "--new-instance",
    "--remote-debugging-port=0",
    "--remote-allow-system-access",
)
_PREFERENCES: dict[str, int | str] = {  # beside those that remote debugging sets by itself
    "network.proxy.type": 1,  # a proxy that is not there: nothing leaves this machine
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "ui.prefersReducedMotion": 0,
}
# As WebDriver spells keys.
_KEYS = {
    "Backspace": "\ue003",
    "Tab": "\ue004",
    "Enter": "\ue007",
    "Shift": "\ue008",
    "Control": "\ue009",
    "Escape": "\ue00c",
    "End": "\ue010",
    "Home": "\ue011",
    "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013",
    "ArrowRight": "\ue014",
    "ArrowDown": "\ue015",
}
_EVENTS = ("log.entryAdded", "network.beforeRequestSent")
_POINTER = {"move": "pointerMove", "down": "pointerDown", "up": "pointerUp"}


@contextmanager
def firefox(binary: str) -> Iterator[Firefox]:
    """A running Firefox, which is ended on leaving.

    Raises:
        BrowserError: it does not start.
    """
    with tempfile.TemporaryDirectory(
        prefix="xla_sweeps-firefox-", ignore_cleanup_errors=True
    ) as name:
        home = Path(name)
        (home / "downloads").mkdir()
        (home / "profile").mkdir()
        (home / "profile" / "user.js").write_text(
            "".join(
                f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
                for name, value in _PREFERENCES.items()
            )
        )
        command = [binary, *FLAGS, "--profile", str(home / "profile"), "about:blank"]
        with (
            _process(command, home) as process,
            connect(
                _address(home, process), max_size=None, ping_interval=None, compression=None
            ) as socket,
        ):
            yield Firefox(socket, home / "downloads")


@contextmanager
def _process(command: list[str], home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A running command with this home folder, ended with all that it started."""
    folders = {"HOME": str(home), "TMPDIR": str(home)}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **folders, "MOZ_CRASHREPORTER_DISABLE": "1"},
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _address(home: Path, process: subprocess.Popen[bytes], *, timeout_s: float = 300) -> str:
    """The address at which the browser listens; it writes that into its profile."""
    path = home / "profile" / "WebDriverBiDiServer.json"
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            server = json.loads(path.read_text())
            return f"ws://{server['ws_host']}:{server['ws_port']}/session"
        time.sleep(0.02)
    log = (home / "log").read_text(errors="replace")
    raise BrowserError(f"the browser did not start: {log[-2000:]}")


class Firefox:
    """The engine of a `Browser`, whose methods say what these do."""

    def __init__(self, socket: ClientConnection, downloads: Path) -> None:
        self.seen = Seen()
        self._socket = socket
        self._numbers = itertools.count(1)
        self._downloads = downloads
        self._context = self._user = self._url = self._preload = ""
        self._before: str | None = None
        self._send("session.new", capabilities={})
        self._send("session.subscribe", events=_EVENTS)
        place = {"type": "allowed", "destinationFolder": str(downloads)}
        self._send("browser.setDownloadBehavior", downloadBehavior=place)
        tree = self._send("browsingContext.getTree", **{"moz:scope": "chrome", "maxDepth": 0})
        self._chrome: str = tree["contexts"][0]["context"]

    def open(
        self, url: str, *, size: tuple[int, int], dark: bool, before: str, fresh: bool
    ) -> None:
        if fresh or before != self._before:
            self._new_tab(before)
        self.pointer("move", 0, 0)
        self._call("browsingContext.navigate", url="about:blank", wait="complete")
        screen = {"viewport": {"width": size[0], "height": size[1]}, "devicePixelRatio": 1.0}
        self._call("browsingContext.setViewport", **screen)
        scheme = f"'layout.css.prefers-color-scheme.content-override', {0 if dark else 1}"
        self._script(f"Services.prefs.setIntPref({scheme})", self._chrome)
        self.seen, self._url = Seen(), url.partition("#")[0]
        self._call("browsingContext.navigate", url=url, wait="complete")

    def _new_tab(self, before: str) -> None:
        """Replace the tab by one in which `before` runs in each page."""
        old_user, self._context, self._before = self._user, "", before
        # One for all contexts, removed before its successor is added: one for a context that is
        # gone spoils all later pages.
        if self._preload:
            self._send("script.removePreloadScript", script=self._preload)
        preload = {"functionDeclaration": f"() => {{ {before} }}"}
        self._preload = self._send("script.addPreloadScript", **preload)["script"]
        self._user = self._send("browser.createUserContext")["userContext"]
        tab = {"type": "tab", "userContext": self._user, "background": False}
        self._context = self._send("browsingContext.create", **tab)["context"]
        if old_user:
            self._send("browser.removeUserContext", userContext=old_user)

    def evaluate(self, expression: str) -> str | None:
        value = self._script(expression, self._context)
        return value.get("value") if value["type"] == "string" else None

    def press(self, chord: str) -> None:
        keys = [_KEYS.get(key, key) for key in (chord.split("+") if len(chord) > 1 else chord)]
        self._take_focus()
        down = [{"type": "keyDown", "value": key} for key in keys]
        up = [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self._act({"type": "key", "id": "keyboard", "actions": [*down, *up]})

    def write(self, text: str) -> None:
        for letter in text:
            self.press(letter)

    def pointer(self, kind: str, x: float, y: float) -> None:
        action = {"x": round(x), "y": round(y)} if kind == "move" else {"button": 0}
        actions = [{"type": _POINTER[kind], **action}]
        mouse = {"pointerType": "mouse"}
        self._act({"type": "pointer", "id": "mouse", "parameters": mouse, "actions": actions})

    def download(self, start: Callable[[], None]) -> tuple[str, bytes]:
        for old in self._downloads.iterdir():
            old.unlink()
        start()
        deadline = time.monotonic() + TIMEOUT_S
        size = -1
        while time.monotonic() < deadline:
            files = list(self._downloads.iterdir())
            if len(files) == 1 and files[0].suffix != ".part":
                if size == files[0].stat().st_size > 0:
                    return files[0].name, files[0].read_bytes()
                size = files[0].stat().st_size
            time.sleep(0.1)
        raise BrowserError("nothing was saved")

    def screenshot(self, path: Path) -> None:
        answer = self._call("browsingContext.captureScreenshot", origin="document")
        path.write_bytes(base64.b64decode(answer["data"]))

    def _take_focus(self) -> None:
        """Give the page the focus."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self._script("document.hasFocus()", self._context)["value"]:
            if time.monotonic() > deadline:
                raise BrowserError("the page does not get the focus")
            self._script("gBrowser.selectedBrowser.focus()", self._chrome)
            time.sleep(0.02)

    def _act(self, source: dict[str, Any]) -> None:
        self._call("input.performActions", actions=[source])

    def _script(self, expression: str, context: str) -> dict[str, Any]:
        params = {"expression": expression, "target": {"context": context}, "awaitPromise": True}
        answer = self._send("script.evaluate", **params)
        if answer["type"] == "exception":
            raise BrowserError(answer["exceptionDetails"]["text"])
        value: dict[str, Any] = answer["result"]
        return value

    def _call(self, method: str, **params: Any) -> Any:
        return self._send(method, context=self._context, **params)

    def _send(self, method: str, **params: Any) -> Any:
        """The result of one command; events that arrive before it are handled."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                text = self._socket.recv(timeout=max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise BrowserError(f"{method}: no answer within {TIMEOUT_S:.0f} s") from None
            message = json.loads(text)
            if message.get("id") != number:
                self._handle(message)
            elif "error" in message:
                raise BrowserError(f"{method}: {message.get('message') or message['error']}")
            else:
                return message["result"]

    def _handle(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "log.entryAdded" if params["source"].get("context") == self._context:
                if params["level"] in ("error", "warn"):
                    self.seen.complaints.append(f"{params['level']}: {params['text']}")
            case "network.beforeRequestSent" if params.get("context") == self._context:
                if params["request"]["url"].partition("#")[0] != self._url:
                    self.seen.requests.append(params["request"]["url"])
