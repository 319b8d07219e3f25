"""Firefox by WebDriver BiDi."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser import BrowserError, Seen, Wire, await_lines

FLAGS = (
    "--headless",
    "--no-remote",
    "--new-instance",
    "--remote-debugging-port=0",
    "--remote-allow-system-access",
)
_PREFERENCES: dict[str, bool | int | str] = {
    "app.update.disabledForTesting": True,
    "app.normandy.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.download.always_ask_before_handling_new_types": False,
    "browser.download.folderList": 2,
    "browser.download.useDownloadDir": True,
    "browser.safebrowsing.downloads.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.search.update": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.disable_open_during_load": False,
    "extensions.update.enabled": False,
    "extensions.getAddons.cache.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.proxy.type": 1,  # a proxy that is not there: nothing leaves this machine
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "services.settings.server": "data:,",
    "startup.homepage_welcome_url": "about:blank",
    "toolkit.telemetry.server": "",
    "ui.prefersReducedMotion": 0,
}
# As WebDriver spells keys.
_KEYS = {
    "Backspace": "\ue003",
    "Tab": "\ue004",
    "Enter": "\ue007",
    "Shift": "\ue008",
    "Control": "\ue009",
    "Alt": "\ue00a",
    "Escape": "\ue00c",
    "PageUp": "\ue00e",
    "PageDown": "\ue00f",
    "End": "\ue010",
    "Home": "\ue011",
    "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013",
    "ArrowRight": "\ue014",
    "ArrowDown": "\ue015",
    "Delete": "\ue017",
}
_EVENTS = ("log.entryAdded", "network.beforeRequestSent")


class Firefox:
    """An `Engine` of `browser`."""

    @staticmethod
    def prepare(folder: Path) -> list[str]:
        """Its arguments; the preferences are written."""
        profile = folder / "profile"
        profile.mkdir()
        preferences = {**_PREFERENCES, "browser.download.dir": str(folder / "downloads")}
        lines = [
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in preferences.items()
        ]
        (profile / "user.js").write_text("".join(lines))
        return [*FLAGS, "--profile", str(profile), "about:blank"]

    def __init__(self, folder: Path, alive: Callable[[], bool]) -> None:
        self.seen = Seen()
        self.downloads = folder / "downloads"
        lines = await_lines(folder / "profile" / "WebDriverBiDiServer.json", alive)
        server = json.loads("".join(lines))
        self._wire = Wire(f"ws://{server['ws_host']}:{server['ws_port']}/session", self._event)
        self._wire.call("session.new", {"capabilities": {}})
        self._wire.call("session.subscribe", {"events": list(_EVENTS)})
        self._context = self._user = self._url = self._preload = ""
        (chrome,) = self._wire.call(
            "browsingContext.getTree", {"moz:scope": "chrome", "maxDepth": 0}
        )["contexts"][:1]
        self._chrome: str = chrome["context"]
        self._dark = False

    def fresh_page(self, *, size: tuple[int, int], dark: bool, before: str) -> None:
        old_user, self._context = self._user, ""
        # One for all contexts, taken back before its successor: one for a context that is gone
        # spoils all later pages.
        if self._preload:
            self._wire.call("script.removePreloadScript", {"script": self._preload})
        added = self._wire.call(
            "script.addPreloadScript", {"functionDeclaration": f"() => {{ {before} }}"}
        )
        self._preload = added["script"]
        self._user = self._wire.call("browser.createUserContext", {})["userContext"]
        created = {"type": "tab", "userContext": self._user, "background": False}
        self._context = self._wire.call("browsingContext.create", created)["context"]
        if old_user:
            self._wire.call("browser.removeUserContext", {"userContext": old_user})
        screen = {"viewport": {"width": size[0], "height": size[1]}, "devicePixelRatio": 1.0}
        self._call("browsingContext.setViewport", **screen)
        if dark != self._dark:
            # No command sets the colour scheme in every version that is about; a preference does.
            number = "0" if dark else "1"
            name = "layout.css.prefers-color-scheme.content-override"
            self._script(f"Services.prefs.setIntPref('{name}', {number})", self._chrome)
            self._dark = dark

    def navigate(self, url: str) -> None:
        self.seen.complaints.clear()
        self.seen.requests.clear()
        self._url = url.partition("#")[0]
        self._call("browsingContext.navigate", url=url, wait="complete")

    def evaluate(self, expression: str) -> str | None:
        value = self._script(expression, self._context)
        return value.get("value") if value["type"] == "string" else None

    def key(self, name: str, *, down: bool) -> None:
        if down:
            self._take_focus()
        action = {"type": "keyDown" if down else "keyUp", "value": _KEYS.get(name, name)}
        self._call(
            "input.performActions", actions=[{"type": "key", "id": "keyboard", "actions": [action]}]
        )

    def pointer(self, kind: str, x: float, y: float) -> None:
        action: dict[str, Any] = {
            "type": {"move": "pointerMove", "down": "pointerDown", "up": "pointerUp"}[kind]
        }
        action.update({"x": round(x), "y": round(y)} if kind == "move" else {"button": 0})
        source = {
            "type": "pointer",
            "id": "mouse",
            "parameters": {"pointerType": "mouse"},
            "actions": [action],
        }
        self._call("input.performActions", actions=[source])

    def screenshot(self) -> bytes:
        return base64.b64decode(
            self._call("browsingContext.captureScreenshot", origin="document")["data"]
        )

    def close(self) -> None:
        self._wire.close()

    def _take_focus(self) -> None:
        """Give the page the focus, which the browser's own address bar claims at some time after the start."""
        deadline = time.monotonic() + 10
        while not self._script("document.hasFocus()", self._context)["value"]:
            if time.monotonic() > deadline:
                raise BrowserError("the page does not get the focus")
            self._script("gBrowser.selectedBrowser.focus()", self._chrome)
            time.sleep(0.02)

    def _call(self, method: str, **params: Any) -> Any:
        return self._wire.call(method, {"context": self._context, **params})

    def _script(self, expression: str, context: str) -> dict[str, Any]:
        params = {"expression": expression, "target": {"context": context}, "awaitPromise": True}
        answer = self._wire.call("script.evaluate", params)
        if answer["type"] == "exception":
            raise BrowserError(answer["exceptionDetails"]["text"])
        value: dict[str, Any] = answer["result"]
        return value

    def _event(self, message: dict[str, Any]) -> None:
        params = message["params"]
        match message["method"]:
            case "log.entryAdded" if params["source"].get("context") == self._context:
                if params["level"] in ("error", "warn"):
                    self.seen.complaints.append(f"{params['level']}: {params['text']}")
            case "network.beforeRequestSent" if params.get("context") == self._context:
                if params["request"]["url"].partition("#")[0] != self._url:
                    self.seen.requests.append(params["request"]["url"])
