"""Drive a real headless browser, Chromium or Firefox, by the debugging protocol that it speaks itself.

No driver binary and no library but a WebSocket client. Keys and the mouse go in as input events, so
that what a test clicks is what a person could click; JavaScript goes in through the debugger, which
a page's Content-Security-Policy does not bind. Whatever the page complains about or asks the
network for is collected.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from websockets.sync.client import connect

NAMES = {
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "firefox": ("firefox", "firefox-esr"),
}
DESKTOP = (1280, 900)
PHONE = (375, 700)
ANSWER_TIMEOUT_S = 120.0
"""For one command: a page of 100,000 rows on a busy machine blocks its thread for seconds."""

VIOLATIONS = """document.addEventListener('securitypolicyviolation', (event) =>
  console.error(`policy violation: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));"""
"""Runs before the page's own scripts: browsers do not agree on where they report what a policy has blocked."""

_PLACE = """((selector) => {
  const found = document.querySelectorAll(selector);
  if (found.length !== 1) return `${found.length} elements match`;
  const [element] = found;
  element.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
  const box = element.getBoundingClientRect();
  if (!box.width || !box.height) return 'not visible';
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const hit = document.elementFromPoint(x, y);
  const label = element.closest('label');
  if (!hit || !(element.contains(hit) || (label && label.contains(hit)))) return `covered by ${hit && hit.outerHTML.slice(0, 200)}`;
  return [x, y, box.left, box.top, box.width, box.height];
})"""


class BrowserError(Exception):
    """The browser, or the page in it, did not do what was asked."""


class Seen:
    """What a page has said and asked for since it was opened."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []


class Engine(Protocol):
    """What the two protocols differ in."""

    seen: Seen
    downloads: Path

    def fresh_page(self, *, size: tuple[int, int], dark: bool, before: str) -> None:
        """Leave the page before, if any, for an empty one that shares no state with it.

        Args:
            size: of the viewport, CSS pixels.
            dark: whether the system is said to prefer dark colours.
            before: JavaScript that runs in the next page before its own.
        """

    def navigate(self, url: str) -> None:
        """Go there and return once it has loaded; what is collected begins here."""

    def evaluate(self, expression: str) -> str | None:
        """A text, or the promise of one."""

    def key(self, name: str, *, down: bool) -> None:
        """A key, by the `key` value of its event."""

    def pointer(self, kind: str, x: float, y: float) -> None:
        """`move`, `down` or `up` of the mouse, in CSS pixels of the viewport."""

    def screenshot(self) -> bytes:
        """The whole page as a PNG."""

    def close(self) -> None:
        """Leave the browser, which is about to be ended."""


class Wire:
    """Commands out, answers in, over one WebSocket; events are handed on as they come."""

    def __init__(self, url: str, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._stack = contextlib.ExitStack()
        socket = connect(url, max_size=None, open_timeout=30, ping_interval=None, compression=None)
        self._socket = self._stack.enter_context(socket)
        self._on_event = on_event
        self._numbers = itertools.count(1)

    def call(self, method: str, params: dict[str, Any], **address: str) -> Any:
        """The result of one command.

        Raises:
            BrowserError: the browser refused it, or did not answer.
        """
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params, **address}))
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            try:
                message = json.loads(
                    self._socket.recv(timeout=max(0.0, deadline - time.monotonic()))
                )
            except TimeoutError:
                raise BrowserError(f"{method}: no answer within {ANSWER_TIMEOUT_S:.0f} s") from None
            if message.get("id") != number:
                if "method" in message:
                    self._on_event(message)
            elif "error" in message:
                raise BrowserError(f"{method}: {message.get('message') or message['error']}")
            else:
                return message["result"]

    def close(self) -> None:
        self._stack.close()


class Browser:
    """One browser with one page.

    Attributes:
        kind: `chromium` or `firefox`.
    """

    def __init__(self, kind: str, engine: Engine) -> None:
        self.kind = kind
        self._engine = engine

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, violations of the policy: since `open`."""
        self.evaluate("0")  # events that were sent before an answer have arrived before it
        return self._engine.seen.complaints

    @property
    def requests(self) -> list[str]:
        """What the page asked for since `open`, without itself and what it carries in it (data:, blob:)."""
        self.evaluate("0")
        return [
            url
            for url in self._engine.seen.requests
            if not url.startswith(("data:", "blob:", "about:"))
        ]

    def open(
        self, url: str, *, size: tuple[int, int] = DESKTOP, dark: bool = False, before: str = ""
    ) -> None:
        """A fresh page at this address, in which `before` runs first.

        What was collected is forgotten.
        """
        self._engine.fresh_page(size=size, dark=dark, before=f"{VIOLATIONS}\n{before}")
        self._engine.navigate(url)

    def evaluate(self, expression: str) -> Any:
        """What a JavaScript expression gives, awaited where it is a promise, as plain data."""
        text = self._engine.evaluate(f"(async () => JSON.stringify(await ({expression})))()")
        return None if text is None else json.loads(text)

    def run(self, source: str) -> None:
        """Run statements, such as a whole library, in the page."""
        self._engine.evaluate(f"{source}\n;''")

    def wait(self, expression: str, *, timeout_s: float = 60) -> Any:
        """What the expression gives, once that is true."""
        deadline = time.monotonic() + timeout_s
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise BrowserError(
                    f"still {value!r} after {timeout_s:.0f} s: {expression}; {self.complaints}"
                )
            time.sleep(0.02)
        return value

    def press(self, *chords: str) -> None:
        """Keys one after the other; `Shift+Tab` holds the first."""
        for chord in chords:
            keys = chord.split("+") if len(chord) > 1 else [chord]
            for key in keys:
                self._engine.key(key, down=True)
            for key in reversed(keys):
                self._engine.key(key, down=False)

    def write(self, text: str) -> None:
        """Type into what has the focus."""
        self.press(*text)

    def place(self, selector: str) -> tuple[float, float, float, float, float, float]:
        """Scroll the one matching element into view: its centre, and its left, top, width and height.

        Raises:
            BrowserError: there are none or several, or a mouse at its centre would meet another
                element.
        """
        found = self.evaluate(f"{_PLACE}({json.dumps(selector)})")
        if isinstance(found, str):
            raise BrowserError(f"{selector}: {found}")
        x, y, left, top, width, height = found
        return x, y, left, top, width, height

    def hover(self, selector: str) -> None:
        """Put the mouse over the middle of an element."""
        self.hover_at(*self.place(selector)[:2])

    def hover_at(self, x: float, y: float) -> None:
        """Put the mouse at a place of the viewport."""
        self._engine.pointer("move", x, y)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        self.click_at(*self.place(selector)[:2])

    def click_at(self, x: float, y: float) -> None:
        """Click at a place of the viewport."""
        self.hover_at(x, y)
        self._engine.pointer("down", x, y)
        self._engine.pointer("up", x, y)

    def drag(self, start: tuple[float, float], end: tuple[float, float], *, steps: int = 8) -> None:
        """Press the mouse button at one place of the viewport and let it go at another."""
        self.hover_at(*start)
        self._engine.pointer("down", *start)
        for step in range(1, steps + 1):
            part = step / steps
            self.hover_at(
                start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])
            )
        self._engine.pointer("up", *end)

    def download(self, start: Callable[[], None], *, timeout_s: float = 30) -> tuple[str, bytes]:
        """The name and the content of the file that `start` makes the page save."""
        folder = self._engine.downloads
        for old in folder.iterdir():
            old.unlink()
        start()
        deadline = time.monotonic() + timeout_s
        size = -1
        while time.monotonic() < deadline:
            found = list(folder.iterdir())
            if len(found) == 1 and found[0].suffix not in (".part", ".crdownload"):
                if size == found[0].stat().st_size > 0:
                    return found[0].name, found[0].read_bytes()
                size = found[0].stat().st_size
            time.sleep(0.1)
        raise BrowserError(f"nothing was saved within {timeout_s:.0f} s")

    def screenshot(self, path: Path) -> None:
        """Save the whole page as a PNG."""
        path.write_bytes(self._engine.screenshot())


def find(kind: str) -> str | None:
    """The path of the browser on this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES[kind])), None)


@contextmanager
def started(kind: str) -> Iterator[Browser]:
    """A running browser, which is ended on leaving.

    Raises:
        BrowserError: it is not there, or does not start.
    """
    # Here, because they know this module's words.
    from browser_chromium import Chromium
    from browser_firefox import Firefox

    binary = find(kind)
    if binary is None:
        raise BrowserError(f"no {kind}: none of {', '.join(NAMES[kind])} is on the path")
    engines: dict[str, type[Chromium] | type[Firefox]] = {"chromium": Chromium, "firefox": Firefox}
    with tempfile.TemporaryDirectory(
        prefix=f"xla_sweeps-{kind}-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        (folder / "downloads").mkdir()
        with _process([binary, *engines[kind].prepare(folder)], folder) as process:
            engine = engines[kind](folder, lambda: process.poll() is None)
            try:
                yield Browser(kind, engine)
            finally:
                engine.close()


@contextmanager
def _process(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A running command that has its home in the folder, ended with all that it started."""
    environment = {
        **os.environ,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "MOZ_CRASHREPORTER_DISABLE": "1",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def await_lines(path: Path, alive: Callable[[], bool], *, timeout_s: float = 60) -> Sequence[str]:
    """The lines of a file that a starting browser writes."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and alive():
        if path.exists() and (lines := path.read_text().splitlines()):
            return lines
        time.sleep(0.02)
    log = path.parent.parent / "log"
    raise BrowserError(
        f"the browser did not start: no {path.name}; {log.read_text(errors='replace')[-2000:]}"
    )
