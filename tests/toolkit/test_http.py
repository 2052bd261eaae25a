"""One HTTP request as a tool, against real servers on loopback, good ones and bad ones."""

import base64
import http.client
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import clew
from clew.toolkit import http_request

Reply = Callable[["Site"], None]


class Site(BaseHTTPRequestHandler):
    """Answers as the test says and notes what it was asked."""

    protocol_version = "HTTP/1.1"
    reply: Reply
    asked: list[tuple[str, str, dict[str, str], bytes]]

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.asked.append((self.command, self.path, headers, body))
        type(self).reply(self)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = answer  # noqa: N815  # the library's names

    def say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def site(reply: Reply) -> Iterator[tuple[str, list[tuple[str, str, dict[str, str], bytes]]]]:
    asked: list[tuple[str, str, dict[str, str], bytes]] = []
    handler = type("Here", (Site,), {"reply": staticmethod(reply), "asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def line(*pieces: bytes, end: str = "close") -> Iterator[str]:
    """A server that reads one request, says these bytes as they are, and then closes, resets, or says nothing more."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connected:
                connected.recv(65536)
                for piece in pieces:
                    connected.sendall(piece)
                if end == "silence":
                    over.wait()
                if end == "reset":
                    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            over.set()
            thread.join()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def ask(method: str, url: str, **given: Any) -> Any:
    return http_request(clew.Call.loose(), method, url, **given)


def test_what_the_tool_says_of_itself() -> None:
    """Whether a request may be repeated is known to the other side alone."""
    said = http_request.capability

    assert (said.effect, said.replay, said.source, said.free) == ("external", "unknown", "builtin", False)


def test_a_request_arrives_as_it_was_given() -> None:
    """Method, path with its query, body and headers are the caller's."""
    with site(lambda here: here.say(201, b'{"id": 7}', Content_Type="application/json")) as (url, asked):
        answer = ask("post", f"{url}/pay?x=%20", json={"cents": 4200}, headers={"X-Who": "ann"})

    [(method, path, headers, body)] = asked
    assert answer == {"status": 201, "headers": {"content-type": "application/json"}, "json": {"id": 7}}
    assert (method, path, json.loads(body)) == ("POST", "/pay?x=%20", {"cents": 4200})
    assert (headers["x-who"], headers["content-type"]) == ("ann", "application/json")


def test_the_calls_uuid_is_the_key_unless_the_caller_has_one() -> None:
    """One key for one effect: with it the other side can tell a repetition, and a person can find it again."""
    call = clew.Call.loose()
    with site(lambda here: here.say(204)) as (url, asked):
        http_request(call, "POST", url, body="")
        http_request(call, "POST", url, headers={"Idempotency-Key": "mine"})

    assert [headers["idempotency-key"] for _, _, headers, _ in asked] == [call.uuid, "mine"]


@pytest.mark.parametrize("status", [200, 301, 302, 303, 307, 308, 400, 401, 404, 409, 429, 500, 503])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_status_is_an_answer_and_no_redirect_is_followed(method: str, status: int) -> None:
    """A redirected POST that is sent again pays twice, and headers for one host are not for another."""
    with site(lambda here: here.say(status, b"so", Location="/other")) as (url, asked):
        answer = ask(method, url)

    assert (answer["status"], answer["headers"], answer["text"]) == (status, {"location": "/other"}, "so")
    assert len(asked) == 1


def test_headers_that_are_nobodys_business_stay_out_of_the_answer() -> None:
    """A cookie would lie in the journal for ever."""
    reply: Reply = lambda here: here.say(200, Set_Cookie="session=1", ETag="e", X_Request_Id="r")  # noqa: E731  # one reply
    with site(reply) as (url, _):
        answer = ask("GET", url)

    assert answer["headers"] == {"etag": "e", "x-request-id": "r"}


BODIES: list[tuple[str, bytes, dict[str, Any]]] = [
    ("text/plain; charset=latin-1", "Grüße".encode("latin-1"), {"text": "Grüße"}),
    ("text/plain", "Grüße".encode(), {"text": "Grüße"}),
    ("text/plain; charset=nonsense", b"x", {"base64": "eA=="}),
    ("image/png", b"\x89PNG\xff", {"base64": base64.b64encode(b"\x89PNG\xff").decode()}),
    ("application/problem+json", b'{"title": "no"}', {"json": {"title": "no"}}),
    ("application/json", b"null", {"json": None}),
    ("application/json", b"{broken", {"text": "{broken"}),
    ("application/json", b'{"n": NaN}', {"text": '{"n": NaN}'}),
    ("application/json", b"[" * 100_000, {"text": "[" * 100_000}),
    ("application/json", b"", {"text": ""}),
]


@pytest.mark.parametrize(("media", "body", "told"), BODIES)
def test_a_body_is_told_as_what_it_is(media: str, body: bytes, told: dict[str, Any]) -> None:
    """What cannot be read as it says is handed on as it came."""
    with site(lambda here: here.say(200, body, Content_Type=media)) as (url, _):
        answer = ask("GET", url)

    assert {name: answer[name] for name in answer if name not in ("status", "headers")} == told


@pytest.mark.parametrize(("size", "cut"), [((1 << 20), None), ((1 << 20) + 1, True), (3 << 20, True)])
def test_a_long_body_is_cut_and_says_so(size: int, cut: bool | None) -> None:
    """The answer is known, so it is one; what is missing of it is said."""
    with site(lambda here: here.say(200, b"x" * size)) as (url, _):
        answer = ask("GET", url)

    assert (len(answer["text"]), answer.get("cut")) == (1 << 20, cut)


def test_an_answer_to_head_has_no_body() -> None:
    """Its length is announced and does not come."""
    with site(lambda here: here.say(200, b"xyz")) as (url, _):
        assert ask("HEAD", url)["text"] == ""


def test_an_answer_in_chunks_is_put_together() -> None:
    """Many servers do not know the length beforehand."""
    with line(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n") as url:
        assert ask("GET", url)["text"] == "abcde"


def test_nobody_there_proves_that_nothing_happened() -> None:
    """Not one byte was sent."""
    with pytest.raises(clew.NothingHappened, match="ConnectionRefusedError"):
        ask("POST", f"http://127.0.0.1:{closed_port()}/", body="x")


def test_a_name_that_cannot_be_looked_up_proves_that_nothing_happened() -> None:
    """Too long for any name server, so that none is asked here."""
    with pytest.raises(clew.NothingHappened, match="no connection"):
        ask("POST", f"http://{'a' * 70}.test/", body="x")


def test_a_server_without_tls_proves_that_nothing_happened() -> None:
    """The request is sent after the handshake, and there was none."""
    with line(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url, pytest.raises(clew.NothingHappened, match="no connection"):
        ask("POST", url.replace("http", "https"), body="secret")


ILLEGAL: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "ftp://127.0.0.1/", {}),
    ("GET", "127.0.0.1/x", {}),
    ("GET", "http:///x", {}),
    ("GET", "http://127.0.0.1:99999/", {}),
    ("GET", "http://[::1/", {}),
    ("GET", "{}a b", {}),
    ("GET", "{}ä", {}),
    ("GE T", "{}", {}),
    ("GET\r\nX: y", "{}", {}),
    ("", "{}", {}),
    ("GET", "{}", {"headers": {"a": "b\r\nc: d"}}),
    ("GET", "{}", {"headers": {"a b": "c"}}),
    ("GET", "{}", {"headers": {"a": "\u20ac"}}),
    ("POST", "{}", {"headers": {"Content-Length": "3"}, "body": "xyz"}),
    ("POST", "{}", {"json": 1, "body": "1"}),
    ("POST", "{}", {"body": "\ud800"}),
    ("GET", "{}", {"timeout_s": 0}),
    ("GET", "{}", {"timeout_s": 1e9}),
    ("GET", "{}", {"timeout_s": float("nan")}),
]


@pytest.mark.parametrize(("method", "url", "given"), ILLEGAL)
def test_what_is_no_legal_request_is_not_sent(method: str, url: str, given: dict[str, Any]) -> None:
    """Known before a connection is made; nothing a model writes smuggles a second request in."""
    with site(lambda here: here.say(200)) as (own, asked):
        with pytest.raises(clew.NothingHappened):
            ask(method, url.format(f"{own}/"), **given)

        assert asked == []


def test_a_password_in_the_url_is_refused() -> None:
    """The arguments of a call are recorded, and an URL is not where a secret is looked for."""
    with site(lambda here: here.say(200)) as (url, asked):
        with pytest.raises(clew.NothingHappened, match="send a header"):
            ask("GET", url.replace("://", "://ann:secret@"))

        assert asked == []


BROKEN: list[tuple[str, tuple[bytes, ...], str]] = [
    ("closed without a word", (), "close"),
    ("reset", (), "reset"),
    ("half a status line", (b"HTTP/1.1 20",), "close"),
    ("not HTTP", (b"hello\r\n\r\n",), "close"),
    ("half the headers", (b"HTTP/1.1 200 OK\r\nContent-Len",), "reset"),
    ("half the body", (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",), "close"),
    ("half the chunks", (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",), "close"),
]


@pytest.mark.parametrize(("pieces", "end"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_an_exchange_that_broke_off_is_unknown(pieces: tuple[bytes, ...], end: str) -> None:
    """It was sent, so it may have been done: that is for a probe or a person, never a retry."""
    with line(*pieces, end=end) as url, pytest.raises((OSError, http.client.HTTPException)):
        ask("POST", url, body="pay")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"])
def test_a_timeout_after_sending_is_unknown(said: bytes) -> None:
    """The time is for the whole answer, not for its first byte."""
    with line(said, end="silence") as url, pytest.raises(TimeoutError):
        ask("POST", url, body="pay", timeout_s=0.1)


def put_off(here: Site) -> None:
    """Says "go on" again and again, and never an answer."""
    try:
        while True:
            here.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    except OSError:
        here.close_connection = True


def test_a_server_that_always_says_something_gets_no_more_time() -> None:
    """Patience for each byte would be patience without end."""
    with site(put_off) as (url, _), pytest.raises(TimeoutError):
        ask("POST", url, timeout_s=0.1)


def pour(here: Site) -> None:
    """For as long as anybody listens."""
    here.send_response(200)
    here.end_headers()
    try:
        while True:
            here.wfile.write(b"x" * 1000)
    except OSError:
        here.close_connection = True


def test_a_body_without_end_is_cut() -> None:
    """A server that never stops does not hold the run for ever."""
    with site(pour) as (url, _):
        answer = ask("GET", url)

    assert (len(answer["text"]), answer["cut"]) == (1 << 20, True)


STEP = "http_request-1:c1"


@clew.agent(tools=[http_request])
async def payer(run: clew.Run, url: str) -> Any:
    """Pays by a request, and swallows what it can."""
    try:
        answer = await run.call(http_request, method="POST", url=url, json={"cents": 1})
    except clew.ToolError as fault:
        return f"told: {fault}"
    return answer["status"]


def test_in_a_run_the_key_is_the_calls_and_a_404_is_an_answer() -> None:
    """What the other side said is known, be it good or bad."""
    home = clew.Home.memory()
    with site(lambda here: here.say(404, b"no")) as (url, asked):
        result = home.run_sync(payer, url)

    assert (result.operation.state, result.output) == ("completed", 404)
    assert [headers["idempotency-key"] for _, _, headers, _ in asked] == [clew.Call(f"{result.run_id}:{STEP}").uuid]


def test_in_a_run_nobody_there_is_told_to_the_agent() -> None:
    """It is proved, so the agent may decide."""
    result = clew.Home.memory().run_sync(payer, f"http://127.0.0.1:{closed_port()}/")

    assert (result.operation.state, result.output[:20]) == ("completed", "told: no connection ")


def test_in_a_run_a_reset_pauses_and_the_agent_is_not_told() -> None:
    """The request may have paid: exit 21, and a person is asked."""
    with line(end="reset") as url:
        result = clew.Home.memory().run_sync(payer, url)

    assert (result.operation.state, result.exit_code, len(result.waiting)) == ("paused", 21, 1)
