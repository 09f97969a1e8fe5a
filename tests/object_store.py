"""A real server of the S3 protocol (moto's), and one that stands between it and its users and misbehaves."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
_ERROR = '<?xml version="1.0"?><Error><Code>{}</Code><Message>{}</Message></Error>'


@contextlib.contextmanager
def moto_server() -> Iterator[int]:
    """The port of a server on this machine."""
    command = [sys.executable, "-u", "-c", "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = []
        for line in server.stderr:
            said.append(line)
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                break
        else:
            raise AssertionError("".join(said))
        threading.Thread(target=server.stderr.read, daemon=True).start()  # its log must not fill the pipe
        yield int(found[1])
        server.kill()


@dataclass
class Bucket:
    """A bucket of the server, reached through the server that misbehaves."""

    port: int
    store: FaultyStore
    name: str = field(default_factory=lambda: f"b{uuid.uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        self._ask("PUT", "")

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    def put(self, key: str, data: bytes) -> str:
        self._ask("PUT", f"/{key}", data)
        return f"{self.url}/{key}"

    def get(self, key: str) -> bytes:
        """The object, from the server itself."""
        return self._ask("GET", f"/{key}")

    def list_keys(self) -> list[str]:
        return re.findall("<Key>([^<]*)</Key>", self._ask("GET", "?list-type=2").decode())

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        # Signatures are not checked, but a private object is refused to whoever sends none.
        signed = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        connection.request(
            method, f"/{self.name}{path}", body, {"Authorization": signed, "Host": f"127.0.0.1:{self.port}"}
        )
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status < 300, (answer.status, data)
        connection.close()
        return data


class FaultyStore(ThreadingHTTPServer):
    """Passes requests on to the server, unless told otherwise.

    Attributes:
        fault: `busy` (503), `denied` (403), `silent` (no answer), `cut` (the connection ends in the middle of an upload),
            `stuck` (half of an upload arrives); empty: none.
        times: How many requests it applies to.
        methods: Those that it applies to.
        delay_s: How long every answer takes.
        seen: Methods and paths so far.
        reached: Set once a faulty request has come.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = port
        self.fault = ""
        self.times = 1 << 30
        self.methods = {"GET", "PUT", "POST", "HEAD", "DELETE"}
        self.delay_s = 0.0
        self.seen: list[str] = []
        self.reached = threading.Event()
        self.ended = threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: Any) -> None:
        """Clients that are killed are part of the tests."""

    def close(self) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: FaultyStore
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        server = self.server
        server.seen.append(f"{self.command} {self.path}")
        self.close_connection = True
        time.sleep(server.delay_s)
        if self.headers.get("Expect", "") and not server.fault:
            self.send_response_only(100)
            self.end_headers()
        is_faulty = server.fault and self.command in server.methods and server.times > 0
        if is_faulty:
            server.times -= 1
            self._misbehave(server.fault)
        else:
            self._pass_on(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815 - the names of http.server

    def _misbehave(self, fault: str) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if fault in {"busy", "denied"}:
            self.rfile.read(length)
            status, code = (503, "SlowDown") if fault == "busy" else (403, "AccessDenied")
            body = b"" if self.command == "HEAD" else _ERROR.format(code, "Please reduce your request rate.").encode()
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        elif fault == "silent":
            self.server.reached.set()
            self.server.ended.wait(60)
        else:
            self._pass_on_half(length, waits=fault == "stuck")

    def _pass_on_half(self, length: int, *, waits: bool) -> None:
        """Send the server the head and half of the body, and end when the client does, or at once."""
        head = f"{self.command} {self.path} HTTP/1.1\r\n{self.headers}".encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
            upstream.sendall(head + self.rfile.read(length // 2))
            self.server.reached.set()
            if waits:
                while self.rfile.read(1):
                    pass
        self.connection.close()

    def _pass_on(self, body: bytes) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name not in {"Expect", "Connection"}}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
