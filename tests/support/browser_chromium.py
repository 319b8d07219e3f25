"""Chromium by the DevTools protocol."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser import BrowserError, Seen, Wire, await_lines

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # which refuses to run as root, as tests do in containers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-color-profile=srgb",
    "--mute-audio",
    "--password-store=basic",
    "--remote-debugging-port=0",
)
# Windows virtual-key codes, and what the key types.
_KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    " ": (32, " "),
    "Escape": (27, ""),
    "Backspace": (8, ""),
    "Delete": (46, ""),
    "Home": (36, ""),
    "End": (35, ""),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Shift": (16, ""),
    "Control": (17, ""),
}
_MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}


class Chromium:
    """An `Engine` of `browser`."""

    @staticmethod
    def prepare(folder: Path) -> list[str]:
        """Its arguments."""
        return [*FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]

    def __init__(self, folder: Path, alive: Callable[[], bool]) -> None:
        self.seen = Seen()
        self.downloads = folder / "downloads"
        port, path = await_lines(folder / "profile" / "DevToolsActivePort", alive)[:2]
        self._wire = Wire(f"ws://127.0.0.1:{port}{path}", self._event)
        self._session = self._context = self._url = ""
        self._held = 0
        self._loaded = False

    def fresh_page(self, *, size: tuple[int, int], dark: bool, before: str) -> None:
        if self._context:
            self._session = ""
            self._wire.call("Target.disposeBrowserContext", {"browserContextId": self._context})
        self._context = self._wire.call("Target.createBrowserContext", {})["browserContextId"]
        place = {
            "behavior": "allow",
            "downloadPath": str(self.downloads),
            "browserContextId": self._context,
        }
        self._wire.call("Browser.setDownloadBehavior", place)
        where = {
            "url": "about:blank",
            "browserContextId": self._context,
            "width": size[0],
            "height": size[1],
        }
        target = self._wire.call("Target.createTarget", where)["targetId"]
        attached = self._wire.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")
        screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Emulation.setFocusEmulationEnabled", enabled=True)
        self._call("Page.bringToFront")  # what is not in front may be drawn never
        self._call("Page.addScriptToEvaluateOnNewDocument", source=before)

    def navigate(self, url: str) -> None:
        self.seen.complaints.clear()
        self.seen.requests.clear()
        self._url, self._loaded, self._held = url.partition("#")[0], False, 0
        answer = self._call("Page.navigate", url=url)
        if answer.get("errorText"):
            raise BrowserError(f"{url}: {answer['errorText']}")
        while not self._loaded:
            self._call(
                "Runtime.evaluate",
                expression="new Promise((done) => setTimeout(done, 5))",
                awaitPromise=True,
            )

    def evaluate(self, expression: str) -> str | None:
        answer = self._call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(_description(answer["exceptionDetails"]))
        value: str | None = answer["result"].get("value")
        return value

    def key(self, name: str, *, down: bool) -> None:
        code, text = _KEYS.get(name) or (ord(name.upper()) if name.isalnum() else 0, name)
        modifier = _MODIFIERS.get(name, 0)
        self._held = self._held | modifier if down else self._held & ~modifier
        if self._held & _MODIFIERS["Control"]:
            text = ""
        event: dict[str, Any] = {
            "key": name,
            "windowsVirtualKeyCode": code,
            "modifiers": self._held,
        }
        if name.isascii() and name.isalpha() and len(name) == 1:
            event["code"] = f"Key{name.upper()}"
        elif len(name) > 1:
            event["code"] = name
        if down and text:
            event.update(type="keyDown", text=text)
        else:
            event["type"] = "rawKeyDown" if down else "keyUp"
        self._call("Input.dispatchKeyEvent", **event)

    def pointer(self, kind: str, x: float, y: float) -> None:
        event = {"move": "mouseMoved", "down": "mousePressed", "up": "mouseReleased"}[kind]
        button = {"button": "none"} if kind == "move" else {"button": "left", "clickCount": 1}
        self._call("Input.dispatchMouseEvent", type=event, x=x, y=y, modifiers=self._held, **button)

    def screenshot(self) -> bytes:
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def close(self) -> None:
        self._wire.close()

    def _call(self, method: str, **params: Any) -> Any:
        return self._wire.call(method, params, sessionId=self._session)

    def _event(self, message: dict[str, Any]) -> None:
        if message.get("sessionId") != self._session:
            return
        params = message["params"]
        match message["method"]:
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.seen.complaints.append(_description(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                words = [
                    str(item.get("value", item.get("description", ""))) for item in params["args"]
                ]
                self.seen.complaints.append(f"{params['type']}: {' '.join(words)}")
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.seen.complaints.append(
                    f"{params['entry']['level']}: {params['entry']['text']}"
                )
            case "Network.requestWillBeSent" if params["request"]["url"] != self._url:
                self.seen.requests.append(params["request"]["url"])


def _description(details: dict[str, Any]) -> str:
    """What was thrown, in one text."""
    thrown = details.get("exception", {})
    return f"{details.get('text', '')} {thrown.get('description') or thrown.get('value') or ''}".strip()
