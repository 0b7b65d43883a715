"""A headless Chromium, driven over a pipe by its DevTools protocol."""

import json
import os
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PATIENCE_S = 90.0
ACTING = {
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
    "Escape": {"code": "Escape", "windowsVirtualKeyCode": 27},
    "ArrowDown": {"code": "ArrowDown", "windowsVirtualKeyCode": 40},
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
}
"""Keys by which the browser itself does something."""


class Tab:
    """One page. Its errors raise where they are noticed."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = os.fdopen(requests, "wb", buffering=0)
        self._answers = os.fdopen(answers, "rb")
        self._number = 0
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")

    def open(self, page: Path, anchor: str = "") -> float:
        """Load a page; returns how long that took, in seconds."""
        return self.visit(page.as_uri() + anchor)

    def visit(self, url: str) -> float:
        """Load a page of a server; as :meth:`open`."""
        began_s = time.monotonic()
        self._call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")
        return time.monotonic() - began_s

    def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        """Give the page a size in pixels, and a preference for light or dark colours."""
        small = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **small)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, as JSON."""
        done = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(f"{expression}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def until(self, expression: str, patience_s: float = PATIENCE_S) -> None:
        """Wait until an expression is true."""
        end_s = time.monotonic() + patience_s
        while not self.value(expression):
            if time.monotonic() > end_s:
                raise AssertionError(f"never true: {expression}")
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press and release a key, which goes to what has the focus."""
        text = {"text": key} if len(key) == 1 else {}
        about = {"key": key, **ACTING.get(key, {})}
        self._call("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", **about)

    def picture(self, file: Path) -> None:
        """Write a screenshot of what is in the window, as PNG."""
        file.write_bytes(b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        request |= {"sessionId": self._session} if self._session else {}
        self._requests.write(json.dumps(request).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _message(self) -> bytes:
        found = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            if not byte:
                raise AssertionError("the browser ended")
            found += byte
        return bytes(found)

    def close(self) -> None:
        self._requests.close()
        self._answers.close()


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A browser with one empty page; it ends with the block."""
    reads, requests = os.pipe()
    answers, writes = os.pipe()
    command = ["chromium", *OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        ["bash", "-c", f'exec 3<&{reads} 4>&{writes}; exec "$@"', "bash", *command],
        pass_fds=(reads, writes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(reads)
    os.close(writes)
    tab = Tab(requests, answers)
    try:
        yield tab
    finally:
        tab.close()
        process.terminate()
        process.wait(PATIENCE_S)
