"""A headless Chromium that shows one page after the other and tells what it met: steered over a pipe, without a port.

`CHROMIUM` names the program where it is not /usr/bin/chromium, as for the tests of the editor extension.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

PATIENCE_S = 60.0
TALLEST = 16_000
"""Pixels of a picture that Chromium takes."""
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--mute-audio")
TROUBLE = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


def program() -> Path | None:
    """Where Chromium is; None where it is not."""
    path = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    return path if path.exists() else None


@dataclass
class Shown:
    """A page as it is in a window."""

    browser: Chromium
    requests: list[str]
    """What it loaded, itself included."""
    trouble: list[str]
    """What the browser had to say about it: messages, warnings, errors."""

    def evaluate(self, expression: str) -> Any:
        answer = self.browser.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, file: Path, *, top: int = 0, height: int | None = None) -> None:
        """Write the page from `top` on as PNG, or as much of it as `height` says."""
        size = self.browser.call("Page.getLayoutMetrics")["cssContentSize"]
        shown = min(size["height"] - top, height or TALLEST)
        clip = {"x": 0, "y": top, "width": size["width"], "height": shown, "scale": 1}
        answer = self.browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(answer["data"]))


@dataclass
class Chromium:
    _commands: int
    _answers: int
    _session: str | None = None
    _count: int = 0
    _rest: bytes = b""
    _events: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the browser, or the page where there is one, and return the answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def open(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def show(
        self,
        page: Path,
        *,
        width: int = 1280,
        height: int = 900,
        scheme: Literal["light", "dark"] = "light",
        media: Literal["screen", "print"] = "screen",
        scripts: bool = True,
    ) -> Shown:
        """Load a page in a window of this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._events.clear()
        self.call("Page.navigate", url=page.as_uri())
        self._wait_for("Page.loadEventFired")
        events = self._events
        requests = [
            one["params"]["request"]["url"] for one in events if one.get("method") == "Network.requestWillBeSent"
        ]
        trouble = [json.dumps(one["params"]) for one in events if one.get("method") in TROUBLE]
        return Shown(self, requests, trouble)

    def _wait_for(self, event: str) -> None:
        while not any(one.get("method") == event for one in self._events):
            self._events.append(self._receive())

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(until - time.monotonic(), 0))
            data = os.read(self._answers, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("chromium does not answer")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


@contextmanager
def running(path: Path) -> Iterator[Chromium]:
    """Start the browser at `path`, with a profile that goes away with it."""
    for_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # It reads commands from descriptor 3 and writes answers to 4.
        script = f'exec "$0" "$@" 3<&{for_browser} 4>&{from_browser}'
        arguments = [str(path), *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            ["bash", "-c", script, *arguments],
            pass_fds=(for_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(for_browser)
        os.close(from_browser)
        try:
            browser = Chromium(commands, answers)
            browser.open()
            yield browser
        finally:
            os.close(commands)
            os.close(answers)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
