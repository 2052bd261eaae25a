"""One HTTP request as a tool. What it may not know, it does not say: only an answer that arrived is an answer."""

import base64
import http.client
import io
import re
import socket
import ssl
import time
from functools import partial
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from clew.errors import NothingHappened
from clew.runtime.tools import Call, Tool

MOST_BODY_BYTES = 1 << 20
MOST_TIMEOUT_S = 3600.0
_PIECE = 1 << 16
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What a caller may want to act on. Cookies and the like are not for a journal.
KEPT_HEADERS = (
    "content-encoding", "content-language", "content-type", "etag", "idempotent-replayed", "last-modified", "link",
    "location", "retry-after", "x-request-id",
)  # fmt: skip


@partial(Tool, effect="external", builtin=True)
def http_request(
    call: Call, method: str, url: str, headers: dict[str, str] | None = None, json: Any = None,
    body: str | None = None, timeout_s: float = 30.0,
) -> dict[str, Any]:  # fmt: skip
    """Send one HTTP request and return the answer, whatever its status. No redirect is followed, no proxy is used.

    `Idempotency-Key` is the call's UUID unless `headers` has one. Nothing happened, provably, when the request is not
    legal or no connection was made; once it was being sent, only an answer says what happened.

    Args:
        call: Whose UUID is the key.
        method: `GET`, `POST`, …
        url: `http://` or `https://`, percent-encoded, without user and password.
        headers: By name, in any case.
        json: Sent as JSON.
        body: Sent as UTF-8; at most one of the two.
        timeout_s: For the whole exchange after the connection was made, and for each address that is tried before.

    Returns:
        `status`; `headers` (of a small set, names in lower case); the body as `json` where it is JSON, else as `text`,
        or as `base64` where it is not text. `cut` is true where the body was longer than 1 MiB.

    Raises:
        NothingHappened: before anything was sent.
        OSError, http.client.HTTPException: the exchange broke off; unknown.
    """
    target = _target(url)
    data = _payload(json, body)
    line = _prepared(target, method, _sent_headers(call, headers, is_json=json is not None), data, timeout_s)
    with _connected(line, target, timeout_s) as connected:
        line.sock = _Deadline(connected, time.monotonic() + timeout_s)
        line.endheaders(data)
        answer = line.getresponse()
        content = _body_of(answer)
    return {"status": answer.status, "headers": _kept(answer), **_told(answer, content)}


# Before anything is sent.


def _target(url: str) -> SplitResult:
    try:
        target = urlsplit(url)
        legal = target.scheme in ("http", "https") and bool(target.hostname) and target.port != 0
    except ValueError as fault:
        raise NothingHappened(f"{url!r} is not a URL: {fault}") from None
    if not legal:
        raise NothingHappened(f"{url!r} is not an http:// or https:// URL with a host")
    if "@" in target.netloc:
        raise NothingHappened("the URL has a user or a password in it, which would be recorded; send a header")
    return target


def _payload(json: Any, body: str | None) -> bytes | None:
    if json is not None and body is not None:
        raise NothingHappened("json and body are both given; a request has one body")
    try:
        return msgspec.json.encode(json) if json is not None else None if body is None else body.encode()
    except (TypeError, ValueError, RecursionError) as fault:
        raise NothingHappened(f"the body cannot be sent: {fault}") from None


def _sent_headers(call: Call, given: dict[str, str] | None, *, is_json: bool) -> dict[str, str]:
    headers = {"idempotency-key": call.uuid, "accept-encoding": "identity", "connection": "close"}
    if is_json:
        headers["content-type"] = "application/json"
    return headers | {name.lower(): value for name, value in (given or {}).items()}


def _prepared(
    target: SplitResult, method: str, headers: dict[str, str], data: bytes | None, timeout_s: float
) -> http.client.HTTPConnection:
    """The request, complete and checked, in a connection that is not made yet."""
    if not 0 < timeout_s <= MOST_TIMEOUT_S:
        raise NothingHappened(f"timeout_s is {timeout_s}; it may be more than 0 and at most {MOST_TIMEOUT_S:g}")
    if any(_TOKEN.fullmatch(word) is None for word in (method, *headers)):
        raise NothingHappened(f"the method {method!r} or the name of a header is not one")
    if "transfer-encoding" in headers or "content-length" in headers:
        raise NothingHappened("the length of the body is counted here; leave out content-length and transfer-encoding")
    kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
    path = (target.path or "/") + (f"?{target.query}" if target.query else "")
    try:
        line = kind(str(target.hostname), target.port)
        line.putrequest(method.upper(), path, skip_host="host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            line.putheader(name, value)
    except (ValueError, TypeError, AttributeError, http.client.HTTPException) as fault:
        raise NothingHappened(f"the request is not legal: {fault}") from None
    if data is not None or method.upper() in ("POST", "PUT", "PATCH"):
        line.putheader("content-length", str(len(data or b"")))
    return line


def _connected(line: http.client.HTTPConnection, target: SplitResult, timeout_s: float) -> socket.socket:
    """A connection, TLS included; whatever goes wrong here, no byte of the request has left."""
    try:
        made = socket.create_connection((line.host, line.port), timeout_s)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if target.scheme == "http":
                return made
            return ssl.create_default_context().wrap_socket(made, server_hostname=line.host)
        except BaseException:
            made.close()
            raise
    except (OSError, ValueError) as fault:
        raise NothingHappened(f"no connection to {target.netloc!r}: {type(fault).__name__}: {fault}") from None


# While it is on its way.


class _Deadline:
    """A connected socket, as `http.client` uses it, on which sending and receiving together end at one moment."""

    def __init__(self, connected: socket.socket, until_s: float) -> None:
        self._connected = connected
        self._until_s = until_s

    def in_time(self) -> socket.socket:
        """The socket, set to wait no longer than what is left."""
        left = self._until_s - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for the exchange is over")
        self._connected.settimeout(left)
        return self._connected

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        self.in_time().sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """What is received, as a file."""
        return io.BufferedReader(_Received(self), _PIECE)

    def close(self) -> None:
        """Nothing: whoever connected closes."""


class _Received(io.RawIOBase):
    def __init__(self, line: _Deadline) -> None:
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._line.in_time().recv_into(buffer)


def _body_of(answer: http.client.HTTPResponse) -> bytes:
    """The body up to one byte more than is told; a body that broke off is no answer."""
    content = bytearray()
    while len(content) <= MOST_BODY_BYTES:
        piece = answer.read(min(_PIECE, MOST_BODY_BYTES + 1 - len(content)))
        if not piece:
            break
        content += piece
    if len(content) <= MOST_BODY_BYTES and answer.length:
        raise http.client.IncompleteRead(bytes(content[:100]), answer.length)
    return bytes(content)


# What is told of it.


def _kept(answer: http.client.HTTPResponse) -> dict[str, str]:
    found = {name: answer.getheader(name) for name in KEPT_HEADERS}
    return {name: value for name, value in found.items() if value is not None}


def _told(answer: http.client.HTTPResponse, content: bytes) -> dict[str, Any]:
    cut = {"cut": True} if len(content) > MOST_BODY_BYTES else {}
    content = content[:MOST_BODY_BYTES]
    media = answer.headers.get_content_type()
    if not cut and (media == "application/json" or media.endswith("+json")):
        try:
            return {"json": msgspec.json.decode(content)}
        except (msgspec.DecodeError, RecursionError):
            pass
    try:
        text = content.decode(answer.headers.get_content_charset("utf-8"), "ignore" if cut else "strict")
    except (UnicodeError, LookupError, ValueError):
        return {"base64": base64.b64encode(content).decode(), **cut}
    return {"text": text, **cut}
