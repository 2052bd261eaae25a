"""A small payment service for the orders example: HTTP on loopback, SQLite inside. Knows nothing of agents or of clew.

    python examples/orders/bank.py --database bank.sqlite --port 0

`POST /payments` `{"order": "1042", "cents": 4200}` with the header Idempotency-Key pays: 201 with the payment. The same
key again is 200 with the first payment, or 422 when it names another order or amount. With `--ignore-keys` the key is
only the label under which a payment is filed, and every POST pays. `GET /payments?key=K` is 200 `{"payments": […]}`.
`GET /health` is 200. A request that is not understood is 400; an amount of exactly 40200 cents is declined with 402.
"""

import argparse
import json
import re
import signal
import socketserver
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

DECLINED_CENTS = 402_00
LARGEST_CENTS = 100_000_000
LARGEST_BODY_BYTES = 16 * 1024
BUSY_TIMEOUT_S = 30.0

TABLE = """CREATE TABLE IF NOT EXISTS payments(
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, order_id TEXT NOT NULL, cents INTEGER NOT NULL, at TEXT NOT NULL)"""
INSERT = """INSERT INTO payments(key, order_id, cents, at)
    VALUES(?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"""
SELECT_ALL = 'SELECT id, key, order_id AS "order", cents, at FROM payments ORDER BY id'
SELECT_BY_ID = 'SELECT id, key, order_id AS "order", cents, at FROM payments WHERE id = ?'
SELECT_BY_KEY = 'SELECT id, key, order_id AS "order", cents, at FROM payments WHERE key = ? ORDER BY id'

Json = dict[str, Any]
Answer = tuple[HTTPStatus, Json]


class Declined(Exception):
    """A request that moved no money: the HTTP status, a stable code and a sentence for its answer."""

    def __init__(self, status: HTTPStatus, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Instruction(NamedTuple):
    """What one POST asks to pay, already checked."""

    key: str
    order: str
    cents: int


def payments(database: str | Path) -> list[Json]:
    """List every payment of a service's database, oldest first, past the service. Changes nothing.

    Args:
        database: The file given to `--database`. The service may be running or gone.

    Returns:
        One `{id, key, order, cents, at}` for each payment.

    Raises:
        sqlite3.OperationalError: There is no such database.
    """
    with closing(_connect(database)) as connection:
        return _select(connection, SELECT_ALL)


def _connect(database: str | Path, mode: str = "rw") -> sqlite3.Connection:
    # Never read-only: after a kill inside a commit only a writable connection can roll the half of it back.
    uri = f"{Path(database).resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    connection.row_factory = sqlite3.Row
    # FULL leaves out the folder's sync behind the deleted rollback journal: a power cut could take the payment back.
    connection.execute("PRAGMA synchronous=EXTRA")
    return connection


def _select(connection: sqlite3.Connection, query: str, *values: str | int) -> list[Json]:
    return [dict(row) for row in connection.execute(query, values)]


class Books:
    """The payments on disk. A payment that was returned is committed and synced."""

    def __init__(self, database: Path, *, honours_keys: bool) -> None:
        self.database = database
        self.honours_keys = honours_keys
        with closing(_connect(database, "rwc")) as connection:
            connection.execute(TABLE)

    def find(self, key: str) -> list[Json]:
        """List the payments filed under a key, oldest first. Changes nothing."""
        with closing(_connect(self.database)) as connection:
            return _select(connection, SELECT_BY_KEY, key)

    def pay(self, instruction: Instruction) -> tuple[Json, bool]:
        """Pay an order, or hand out the payment that its key already made.

        Returns:
            The payment, and whether it is a new one.

        Raises:
            Declined: `key_reused` when the key paid something else; `card_declined` for 40200 cents.
        """
        with closing(_connect(self.database)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if first := self._paid_before(connection, instruction):
                return first, False
            if instruction.cents == DECLINED_CENTS:
                message = f"the card of order {instruction.order!r} was declined"
                raise Declined(HTTPStatus.PAYMENT_REQUIRED, "card_declined", message)
            cursor = connection.execute(INSERT, instruction)
            [payment] = _select(connection, SELECT_BY_ID, cursor.lastrowid or 0)
            connection.execute("COMMIT")
        return payment, True

    def _paid_before(self, connection: sqlite3.Connection, instruction: Instruction) -> Json | None:
        found = _select(connection, SELECT_BY_KEY, instruction.key) if self.honours_keys else []
        if not found:
            return None
        first = found[0]
        if (first["order"], first["cents"]) != (instruction.order, instruction.cents):
            message = f"key {instruction.key!r} already paid order {first['order']!r} with {first['cents']} cents"
            raise Declined(HTTPStatus.UNPROCESSABLE_ENTITY, "key_reused", message)
        return first


class Bank(ThreadingHTTPServer):
    """The service while it listens: one thread a request, each request with its own database connection."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, port: int, books: Books, *, delay_s: float = 0.0, announces: bool = False) -> None:
        self.books = books
        self.delay_s = delay_s
        self.announces = announces
        self.stopping = threading.Event()
        super().__init__(("127.0.0.1", port), Counter)

    def server_bind(self) -> None:
        """Bind without the reverse name lookup of the base class, which may ask a network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a client that hung up or fell silent: being killed is what the example is about."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def pay(self, instruction: Instruction) -> Answer:
        """Pay, announce, then hold the answer back for the delay: a place to be killed in after the money moved."""
        payment, new = self.books.pay(instruction)
        if not new:
            return HTTPStatus.OK, payment
        if self.announces:
            line = f"paid id={payment['id']} order={payment['order']} cents={payment['cents']} key={payment['key']}\n"
            sys.stdout.write(line)
            sys.stdout.flush()
        self.stopping.wait(self.delay_s)
        return HTTPStatus.CREATED, payment


class Counter(BaseHTTPRequestHandler):
    """One request and its answer, always JSON."""

    server: Bank
    server_version = "bank"
    timeout = 10
    wbufsize = -1

    def do_GET(self) -> None:
        """Answer `/payments?key=K` and `/health`."""
        self._answer(self._look)

    def do_POST(self) -> None:
        """Answer `/payments`."""
        self._answer(self._pay)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Stay quiet: an access log in a pipe that nobody reads would stop the service."""

    def _look(self) -> Answer:
        path, _, query = self.path.partition("?")
        if path == "/health":
            return HTTPStatus.OK, {"status": "ok"}
        self._expect_payments(path)
        keys = parse_qs(query, keep_blank_values=True).get("key", [])
        if len(keys) != 1:
            raise _misunderstood("key_missing", f"expected one key, found {len(keys)}")
        return HTTPStatus.OK, {"payments": self.server.books.find(_checked_key(keys[0]))}

    def _pay(self) -> Answer:
        self._expect_payments(self.path)
        body = self._body()
        key = _checked_key(self.headers.get("Idempotency-Key"))
        return self.server.pay(Instruction(key, _checked_order(body.get("order")), _checked_cents(body.get("cents"))))

    def _expect_payments(self, path: str) -> None:
        if path != "/payments":
            raise Declined(HTTPStatus.NOT_FOUND, "not_found", f"nothing lives at {path!r}")

    def _body(self) -> Json:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,9}", length):
            raise Declined(HTTPStatus.LENGTH_REQUIRED, "length_missing", f"Content-Length is {length!r}")
        if int(length) > LARGEST_BODY_BYTES:
            message = f"a body of {length} bytes is above {LARGEST_BODY_BYTES}"
            raise Declined(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", message)
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise _misunderstood("body_invalid", "the body is not JSON") from None
        if not isinstance(body, dict):
            raise _misunderstood("body_invalid", f"the body is {type(body).__name__}, expected an object")
        return body

    def _answer(self, deed: Callable[[], Answer]) -> None:
        try:
            status, body = deed()
        except Declined as declined:
            status, body = declined.status, {"error": {"code": declined.code, "message": str(declined)}}
        except sqlite3.Error as error:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            body = {"error": {"code": "storage", "message": str(error)}}
        data = json.dumps(body, ensure_ascii=False).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _misunderstood(code: str, message: str) -> Declined:
    return Declined(HTTPStatus.BAD_REQUEST, code, message)


def _checked_key(key: str | None) -> str:
    if key is None:
        raise _misunderstood("key_missing", "the header Idempotency-Key is missing")
    if not re.fullmatch(r"[\x21-\x7e]{1,255}", key):
        raise _misunderstood("key_invalid", f"key {key!r} is not 1 to 255 visible ASCII characters")
    return key


def _checked_order(order: object) -> str:
    if not isinstance(order, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", order):
        raise _misunderstood("order_invalid", f"order {order!a} is not 1 to 64 letters, digits, '-' or '_'")
    return order


def _checked_cents(cents: object) -> int:
    # `type`, not `isinstance`: JSON true is a bool, which Python counts as an int.
    if type(cents) is not int or not 0 < cents <= LARGEST_CENTS:
        raise _misunderstood("cents_invalid", f"cents {cents!a} is not a whole number from 1 to {LARGEST_CENTS}")
    return cents


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bank.py", description="A small payment service on 127.0.0.1.")
    parser.add_argument("--database", type=Path, required=True, help="SQLite file, created when missing")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the first line of output names it")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--honour-keys", dest="honours_keys", action="store_true", default=True, help="the default")
    keys.add_argument("--ignore-keys", dest="honours_keys", action="store_false", help="every POST pays")
    parser.add_argument("--delay-ms", type=int, default=0, help="hold back the answer after a payment was committed")
    parser.add_argument("--announce", action="store_true", help="print a line after each commit, before the delay")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C, then answer what is in flight and end with 0."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        books = Books(options.database, honours_keys=options.honours_keys)
        bank = Bank(options.port, books, delay_s=options.delay_ms / 1000, announces=options.announce)
    except (OSError, OverflowError, sqlite3.Error) as error:
        print(f"bank.py: cannot serve {str(options.database)!r} on port {options.port}: {error}", file=sys.stderr)
        return 1
    with bank:
        try:
            print(f"listening on http://127.0.0.1:{bank.server_port}", flush=True)
            bank.serve_forever()
        except KeyboardInterrupt:
            bank.stopping.set()
    return 0


if __name__ == "__main__":
    sys.exit(main())
