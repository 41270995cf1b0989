# SPDX-License-Identifier: Apache-2.0
"""Debian's chromium without a window: what tests of pages share. `Tab` speaks the DevTools protocol over the browser's pipe."""
import base64
import http.server
import itertools
import json
import os
import queue
import shutil
import subprocess
import threading
import time
from urllib.parse import urlsplit

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium: apt-get install chromium")
# Where the browser itself calls at its start.
BROWSERS_OWN = ("google.com", "googleapis.com", "gvt1.com")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars")


class Proxy(http.server.ThreadingHTTPServer):
    """Takes every request of a browser, whatever its host, answers none, and keeps the hosts."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), ProxyRequest)
        self.hosts = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # the browser went away


class ProxyRequest(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        host = urlsplit(self.path if "//" in self.path else "//" + self.path).hostname
        if not host.endswith(BROWSERS_OWN):
            self.server.hosts.append(host)
        self.send_error(404)

    do_CONNECT = do_POST = do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Tab:
    """One tab of a browser of its own. Requests to other addresses than `origin` end at a Proxy."""

    def __init__(self, origin, folder, width=1280, height=900):
        self.profile, self.proxy = folder / "profile", Proxy()
        to_browser, self.pipe = os.pipe()
        answers, from_browser = os.pipe()
        command = [BROWSER, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={self.profile}", f"--window-size={width},{height}",
                   f"--proxy-server=http://127.0.0.1:{self.proxy.server_port}", f"--proxy-bypass-list=<-loopback>;{urlsplit(origin).netloc}", "about:blank"]
        # The browser reads descriptor 3 and writes descriptor 4.
        shell = ["bash", "-c", f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"', "browser", *command]
        self.process = subprocess.Popen(shell, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.numbers, self.answers, self.session = itertools.count(1), queue.Queue(), None
        self.console, self.requests = [], []
        threading.Thread(target=self.listen, args=(answers,), daemon=True).start()
        (page,) = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def listen(self, descriptor):
        with os.fdopen(descriptor, "rb") as stream:
            rest = b""
            while block := stream.read1(1 << 16):
                *messages, rest = (rest + block).split(b"\0")
                for message in messages:
                    self.hear(json.loads(message))

    def hear(self, message):
        words = message.get("params", {})
        if "id" in message:
            self.answers.put(message)
        elif message["method"] == "Network.requestWillBeSent":
            self.requests.append(words["request"]["url"])
        elif message["method"] == "Log.entryAdded":
            self.console.append(words["entry"]["text"])
        elif message["method"] == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(argument.get("value", argument.get("description"))) for argument in words["args"]))
        elif message["method"] == "Runtime.exceptionThrown":
            self.console.append(words["exceptionDetails"].get("exception", {}).get("description", "exception"))

    def call(self, method, **words):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": words} | ({"sessionId": self.session} if self.session else {})
        os.write(self.pipe, json.dumps(message).encode() + b"\0")
        answer = self.answers.get(timeout=60)
        assert answer["id"] == number and "error" not in answer, answer
        return answer["result"]

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=30):
        """The first value that counts as true, and the seconds until then."""
        begin = time.monotonic()
        while not (found := self.evaluate(expression)):
            assert time.monotonic() - begin < seconds, f"not within {seconds} s: {expression}"
            time.sleep(0.02)
        return found, time.monotonic() - begin

    def emulate(self, width=None, height=900, phone=False, **media):
        """`media`: such as prefers_color_scheme="dark"."""
        if width:
            self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": name.replace("_", "-"), "value": value} for name, value in media.items()])

    def press(self, key, modifiers=0):
        code = {"Tab": 9, " ": 32, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13}.get(key, ord(key[0]))
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def mouse(self, kind, x, y, **words):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **words)

    def picture(self, path, whole=False):
        words = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            words = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **words)["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except (OSError, queue.Empty, AssertionError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.pipe)
        self.proxy.shutdown()
        self.proxy.server_close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
