"""The system's Chromium, driven by Playwright, whose own build would be a download."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import playwright.sync_api as pw
from browser_engine import TIMEOUT_S, BrowserError, Seen

FLAGS = (
    "--no-sandbox",  # which refuses to run as root, as tests do in containers
    "--disable-gpu",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@contextmanager
def chromium(binary: str) -> Iterator[Chromium]:
    """A running Chromium, which is closed on leaving."""
    with (
        tempfile.TemporaryDirectory(prefix="xla_sweeps-chromium-") as home,
        pw.sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=binary,
            timeout=300_000,
            args=FLAGS,
            ignore_default_args=["--hide-scrollbars"],
            env={**os.environ, "HOME": home},
        ) as running,
    ):
        yield Chromium(running)


class Chromium:
    """The engine of a `Browser`, whose methods say what these do."""

    def __init__(self, running: pw.Browser) -> None:
        self.seen = Seen()
        self._running = running
        self._context: pw.BrowserContext | None = None
        self._page: pw.Page
        self._url = ""
        self._before: str | None = None

    def open(
        self, url: str, *, size: tuple[int, int], dark: bool, before: str, fresh: bool
    ) -> None:
        if fresh or before != self._before:
            self._new_tab(before)
        self._page.mouse.move(0, 0)
        self._page.goto("about:blank")
        self._page.set_viewport_size({"width": size[0], "height": size[1]})
        self._page.emulate_media(color_scheme="dark" if dark else "light")
        self.seen, self._url = Seen(), url.partition("#")[0]
        self._page.goto(url)

    def _new_tab(self, before: str) -> None:
        """Replace the tab by one in which `before` runs in each page, and which is listened to."""
        if self._context:
            self._context.close()
        self._context, self._before = self._running.new_context(), before
        self._page = self._context.new_page()
        self._page.set_default_timeout(TIMEOUT_S * 1000)
        self._page.add_init_script(before)

        def on_console(message: pw.ConsoleMessage) -> None:
            if message.type in ("error", "warning", "assert"):
                self.seen.complaints.append(f"{message.type}: {message.text}")

        def on_request(request: pw.Request) -> None:
            if request.url.partition("#")[0] != self._url:
                self.seen.requests.append(request.url)

        self._page.on("console", on_console)
        self._page.on("pageerror", lambda error: self.seen.complaints.append(str(error)))
        self._page.on("request", on_request)
        self._page.bring_to_front()  # a page behind another may never draw a frame

    def evaluate(self, expression: str) -> str | None:
        try:
            value: str | None = self._page.evaluate(expression)
        except pw.Error as error:
            raise BrowserError(error.message) from None
        return value

    def press(self, chord: str) -> None:
        self._page.keyboard.press(chord)

    def write(self, text: str) -> None:
        self._page.keyboard.type(text)

    def pointer(self, kind: str, x: float, y: float) -> None:
        mouse = self._page.mouse
        match kind:
            case "move":
                mouse.move(x, y)
            case "down":
                mouse.down()
            case "up":
                mouse.up()

    def download(self, start: Callable[[], None]) -> tuple[str, bytes]:
        try:
            with self._page.expect_download() as started:
                start()
        except pw.TimeoutError:
            raise BrowserError("nothing was saved") from None
        return started.value.suggested_filename, started.value.path().read_bytes()

    def screenshot(self, path: Path) -> None:
        self._page.screenshot(path=path, full_page=True)

    def printed(self) -> bytes:
        return self._page.pdf(format="A4", print_background=True)
