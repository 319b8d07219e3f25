"""Drive a real headless browser, Chromium or Firefox, as a person would.

Keys and the mouse are input events, so that what a test clicks is what a person could click;
JavaScript is evaluated through the debugger, which a page's Content-Security-Policy does not bind.
Whatever the page complains about or requests from the network is collected.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser_chromium import Chromium, chromium
from browser_engine import TIMEOUT_S, BrowserError
from browser_firefox import Firefox, firefox

NAMES = {
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "firefox": ("firefox", "firefox-esr"),
}
DESKTOP = (1280, 900)
PHONE = (375, 700)

HOVER_S = 20.0
"""A page has seen the mouse by then, on a busy machine too."""

VIOLATIONS = """document.addEventListener('securitypolicyviolation', (event) =>
  console.error(
    `policy violation: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));"""
"""Runs before the page's own scripts: browsers do not agree on where they report violations."""

_PLACE = """(async (selector) => {
  const found = document.querySelectorAll(selector);
  if (found.length !== 1) return `${found.length} elements match`;
  const [element] = found;
  // Until it stays: after a key Firefox scrolls back to the element with the focus, a while later.
  for (let times = 0; times < 20; times++) {
    const before = element.getBoundingClientRect();
    element.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
    const {top, left} = element.getBoundingClientRect();
    if (top === before.top && left === before.left) break;
    for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
  }
  const box = element.getBoundingClientRect();
  if (!box.width || !box.height) return 'not visible';
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const hit = document.elementFromPoint(x, y);
  const label = element.closest('label');
  if (!hit || !(element.contains(hit) || (label && label.contains(hit))))
    return `covered by ${hit && hit.outerHTML.slice(0, 200)}`;
  return [x, y, box.left, box.top, box.width, box.height];
})"""

_UNDER_MOUSE = """((selector) => [...document.querySelectorAll(selector)].some((element) =>
  element.matches(':hover') || element.closest('label')?.matches(':hover')))"""


class Browser:
    """One browser with one page.

    Attributes:
        kind: `chromium` or `firefox`.
    """

    def __init__(self, kind: str, engine: Chromium | Firefox) -> None:
        self.kind = kind
        self._engine = engine

    @property
    def complaints(self) -> list[str]:
        """Console errors and warnings, exceptions and policy violations since `open`."""
        self.evaluate("0")  # events that were sent before an answer have arrived before it
        return self._engine.seen.complaints

    @property
    def requests(self) -> list[str]:
        """Requests since `open`, without the page itself and its own data:, blob: URLs."""
        self.evaluate("0")
        inside = ("data:", "blob:", "about:")
        return [url for url in self._engine.seen.requests if not url.startswith(inside)]

    def open(
        self,
        url: str,
        *,
        size: tuple[int, int] = DESKTOP,
        dark: bool = False,
        before: str = "",
        fresh: bool = False,
    ) -> None:
        """Open a new page at this address, in which `before` runs first; forget the last one.

        `fresh`: in a tab of its own, as a person's first look at it.
        """
        self._engine.open(url, size=size, dark=dark, before=f"{VIOLATIONS}\n{before}", fresh=fresh)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression as plain data; a promise is awaited.

        Raises:
            BrowserError: it failed, or its promise was not kept within `TIMEOUT_S`.
        """
        text = self._engine.evaluate(
            f"""(async () => {{
              let timer;
              const late = new Promise((_, fail) => {{
                timer = setTimeout(() => fail(Error('no answer')), {1000 * TIMEOUT_S:.0f});
              }});
              const value = await Promise.race([({expression}), late]);
              clearTimeout(timer);
              return JSON.stringify(value);
            }})()"""
        )
        return None if text is None else json.loads(text)

    def words(self, selector: str) -> str:
        """The text of an element, as it is shown."""
        element = f"document.querySelector({json.dumps(selector)})"
        text: str = self.evaluate(f"{element}.innerText.trim()")
        return text

    def run(self, source: str) -> None:
        """Run statements, such as a whole library, in the page."""
        self._engine.evaluate(f"{source}\n;''")

    def wait(self, expression: str, *, timeout_s: float = 60) -> Any:
        """The value of the expression, once it is true."""
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
            self._engine.press(chord)

    def write(self, text: str) -> None:
        """Type into the element that has the focus."""
        self._engine.write(text)

    def place(self, selector: str) -> tuple[float, float, float, float, float, float]:
        """The centre, left, top, width and height of the one matching element, scrolled into view.

        Raises:
            BrowserError: there are none or several, or a mouse at its centre would meet another
                element.
        """
        answer = self.evaluate(f"{_PLACE}({json.dumps(selector)})")
        if isinstance(answer, str):
            raise BrowserError(f"{selector}: {answer}")
        x, y, left, top, width, height = answer
        return x, y, left, top, width, height

    def hover(self, selector: str) -> tuple[float, float]:
        """Put the mouse over the middle of an element, which is returned.

        Raises:
            BrowserError: as of `place`, or the page does not see the mouse there.
        """
        x, y = self.place(selector)[:2]
        deadline = time.monotonic() + HOVER_S
        self.hover_at(x, y)
        while not self.evaluate(f"{_UNDER_MOUSE}({json.dumps(selector)})"):
            if time.monotonic() > deadline:
                raise BrowserError(f"{selector}: the page does not see the mouse over it")
            time.sleep(0.02)
            x, y = self.place(selector)[:2]
            self.hover_at(x, y)
        return x, y

    def hover_at(self, x: float, y: float) -> None:
        """Put the mouse at a place of the viewport."""
        self._engine.pointer("move", x, y)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, once the page sees the mouse over it."""
        self.click_at(*self.hover(selector))

    def click_at(self, x: float, y: float) -> None:
        """Click at a place of the viewport."""
        self.drag((x, y), (x, y), steps=0)

    def drag(self, start: tuple[float, float], end: tuple[float, float], *, steps: int = 8) -> None:
        """Press the mouse button at one place of the viewport and release it at another."""
        self.hover_at(*start)
        self._engine.pointer("down", *start)
        for step in range(1, steps + 1):
            x, y = (a + step / steps * (b - a) for a, b in zip(start, end, strict=True))
            self.hover_at(x, y)
        self._engine.pointer("up", *end)

    def download(self, start: Callable[[], None]) -> tuple[str, bytes]:
        """The name and the content of the file that `start` makes the page save."""
        return self._engine.download(start)

    def count_sheets(self) -> int:
        """The number of A4 sheets that the page needs on paper; Chromium alone prints."""
        assert isinstance(self._engine, Chromium)
        return len(re.findall(rb"/Type\s*/Page\b", self._engine.printed()))

    def screenshot(self, path: Path) -> None:
        """Save the whole page as a PNG."""
        self._engine.screenshot(path)


def find(kind: str) -> str | None:
    """The path of the browser on this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES[kind])), None)


@contextmanager
def started(kind: str) -> Iterator[Browser]:
    """A running browser, which is ended on leaving.

    Raises:
        BrowserError: it is not there, or does not start.
    """
    binary = find(kind)
    if binary is None:
        raise BrowserError(f"no {kind}: none of {', '.join(NAMES[kind])} is on the path")
    with chromium(binary) if kind == "chromium" else firefox(binary) as engine:
        yield Browser(kind, engine)
