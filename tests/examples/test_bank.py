"""The example's payment service as a real process: how often it pays, what survives its death, what it refuses."""

import csv
import json
import re
import socket
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from examples.orders.bank import DECLINED_CENTS, payments

ORDERS = Path(__file__).parents[2] / "examples" / "orders"
ORDER_1042 = '{"order": "1042", "cents": 4200}'
FAR_AWAY_MS = "600000"
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to end a process with")


class Running(NamedTuple):
    """A service that listens."""

    process: subprocess.Popen[str]
    port: int
    database: Path

    def line(self) -> str:
        """Wait for its next line of output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def send(self, method: str, path: str, body: str | bytes | None = None, **headers: str) -> HTTPConnection:
        """Send one request and leave its answer for later."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        return connection

    def ask(self, method: str, path: str, body: str | bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Send one request and read its answer."""
        return answered(self.send(method, path, body, **headers))

    def pay(self, key: str, order: str = "1042", cents: object = 4200) -> tuple[int, Any]:
        """Pay an order under a key."""
        return self.ask("POST", "/payments", json.dumps({"order": order, "cents": cents}), Idempotency_Key=key)


def answered(connection: HTTPConnection) -> tuple[int, Any]:
    with closing(connection):
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def command(database: Path, *options: str) -> list[str]:
    return [sys.executable, "-u", str(ORDERS / "bank.py"), "--database", str(database), *options]


@contextmanager
def bank(database: Path, *options: str) -> Iterator[Running]:
    with subprocess.Popen(
        command(database, "--port", "0", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            yield Running(process, port, database)
        finally:
            process.kill()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "büro #1?.sqlite"


def orders() -> list[dict[str, str]]:
    with (ORDERS / "orders.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_first_line_names_the_chosen_port(database: Path) -> None:
    """A program that starts the service learns from this line where it lives, without guessing or waiting."""
    with subprocess.Popen(command(database), stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()

    assert re.fullmatch(r"listening on http://127\.0\.0\.1:[1-9][0-9]*\n", line)


def test_health_answers(database: Path) -> None:
    """Whoever waits for the service can ask it."""
    with bank(database) as service:
        answer = service.ask("GET", "/health")

    assert answer == (200, {"status": "ok"})


def test_a_payment_is_answered_as_it_stands_in_the_books(database: Path) -> None:
    """The answer is what a receipt quotes, so it may not differ from what was kept."""
    with bank(database) as service:
        status, payment = service.pay("k1")

    assert (201, [payment]) == (status, payments(database))
    assert {"id": 1, "key": "k1", "order": "1042", "cents": 4200, "at": payment["at"]} == payment
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", payment["at"])


def test_the_same_key_pays_once_when_keys_are_honoured(database: Path) -> None:
    """This is the half of exactly-once that only the payment system can give."""
    with bank(database) as service:
        _, first = service.pay("k1")
        second = service.pay("k1")

    assert (200, first) == second
    assert [first] == payments(database)


def test_the_same_key_pays_twice_when_keys_are_ignored(database: Path) -> None:
    """Many real services are like this, and then a repeated call costs money."""
    with bank(database, "--ignore-keys") as service:
        statuses = [service.pay("k1")[0], service.pay("k1")[0]]

    assert [201, 201] == statuses
    assert [(1, "k1"), (2, "k1")] == [(paid["id"], paid["key"]) for paid in payments(database)]


def test_a_key_outlives_the_service(database: Path) -> None:
    """A retry after a restart of the service must still find the first payment."""
    with bank(database) as service:
        _, first = service.pay("k1")
    with bank(database) as service:
        again = service.pay("k1")

    assert (200, first) == again


@pytest.mark.parametrize(("order", "cents"), [("1043", 4200), ("1042", 4201), ("1042", DECLINED_CENTS)])
def test_a_key_that_paid_something_else_is_refused(database: Path, order: str, cents: int) -> None:
    """Handing out another order's payment, or a decline, would tell the caller something untrue about this key."""
    with bank(database) as service:
        service.pay("k1", "1042", 4200)
        status, answer = service.pay("k1", order, cents)

    assert (422, "key_reused") == (status, answer["error"]["code"])
    assert 1 == len(payments(database))


@pytest.mark.parametrize(("switch", "paid"), [("--honour-keys", 1), ("--ignore-keys", 16)])
def test_sixteen_at_once_under_one_key_pay_once_or_sixteen_times(database: Path, switch: str, paid: int) -> None:
    """Honouring a key must hold between threads, where a look before the write is not enough."""
    with bank(database, switch) as service, closing(sqlite3.connect(database, isolation_level=None)) as books:
        # While the test holds the write lock no request gets further than to its own write: all sixteen meet there.
        books.execute("BEGIN IMMEDIATE")
        sent = [service.send("POST", "/payments", ORDER_1042, Idempotency_Key="k1") for _ in range(16)]
        service.ask("GET", "/payments?key=k1")
        books.execute("ROLLBACK")
        statuses = sorted(answered(connection)[0] for connection in sent)

    assert [200] * (16 - paid) + [201] * paid == statuses
    assert paid == len(payments(database))


def test_looking_finds_the_payments_of_one_key_only(database: Path) -> None:
    """The probe asks by key: another key's payment is no evidence."""
    with bank(database, "--ignore-keys") as service:
        paid = [service.pay(key)[1] for key in ("k1", "k2", "k1")]
        found = service.ask("GET", "/payments?key=k1")

    assert (200, {"payments": [paid[0], paid[2]]}) == found


def test_looking_changes_nothing(database: Path) -> None:
    """A probe may be asked any number of times, for keys that never paid as well."""
    with bank(database) as service:
        service.pay("k1")
        before = database.read_bytes()
        unknown = [service.ask("GET", "/payments?key=k2") for _ in range(3)]
        service.ask("GET", "/payments?key=k1")

    assert [(200, {"payments": []})] * 3 == unknown
    assert before == database.read_bytes()


def test_a_payment_survives_the_death_of_the_service_before_its_answer(database: Path) -> None:
    """The money has moved though nobody was told: the state that the example is made to show."""
    with bank(database, "--announce", "--delay-ms", FAR_AWAY_MS) as service, ThreadPoolExecutor(1) as threads:
        unanswered = threads.submit(service.pay, "k1")
        announced = service.line()
        service.process.kill()

        with pytest.raises((ConnectionError, HTTPException)):
            unanswered.result()

    assert "paid id=1 order=1042 cents=4200 key=k1" == announced
    assert ["k1"] == [paid["key"] for paid in payments(database)]


def test_a_payment_can_be_found_while_its_answer_is_held_back(database: Path) -> None:
    """An agent killed in the delay is resumed in the delay, and its probe must already see the payment."""
    with bank(database, "--announce", "--delay-ms", FAR_AWAY_MS) as service, ThreadPoolExecutor(1) as threads:
        threads.submit(service.pay, "k1")
        service.line()
        found = service.ask("GET", "/payments?key=k1")
        again = service.pay("k1")
        service.process.kill()

    assert (200, {"payments": payments(database)}) == found
    assert (200, payments(database)[0]) == again


@needs_signals
def test_sigterm_answers_what_is_in_flight_and_ends_with_0(database: Path) -> None:
    """Stopping the service is no reason to leave a caller in doubt."""
    with bank(database, "--announce", "--delay-ms", FAR_AWAY_MS) as service, ThreadPoolExecutor(1) as threads:
        unanswered = threads.submit(service.pay, "k1")
        service.line()
        service.process.terminate()
        status, _ = unanswered.result()
        _, complaints = service.process.communicate()

    assert 201 == status
    assert (0, "") == (service.process.returncode, complaints)


@needs_signals
def test_a_client_that_is_gone_leaves_no_traceback(database: Path) -> None:
    """The example kills its agents on purpose, and the service may not drown that in noise."""
    with bank(database, "--announce", "--delay-ms", FAR_AWAY_MS) as service:
        connection = service.send("POST", "/payments", ORDER_1042, Idempotency_Key="k1")
        service.line()
        # Reset rather than closed, as for a process that was killed with an answer under way.
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        service.process.terminate()
        _, complaints = service.process.communicate()

    assert (0, "") == (service.process.returncode, complaints)


def test_a_declined_card_moves_no_money(database: Path) -> None:
    """A decline is a definite no, which an agent may tell apart from not knowing."""
    with bank(database) as service:
        status, answer = service.pay("k1", cents=DECLINED_CENTS)

    assert (402, "card_declined") == (status, answer["error"]["code"])
    assert [] == payments(database)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", "body_invalid"),
        ("{", "body_invalid"),
        ("[" * 10_000, "body_invalid"),
        (b'{"order": "\xff"}', "body_invalid"),
        ("[1]", "body_invalid"),
        ('{"cents": 4200}', "order_invalid"),
        ('{"order": 1042, "cents": 4200}', "order_invalid"),
        ('{"order": "", "cents": 4200}', "order_invalid"),
        ('{"order": "../1042", "cents": 4200}', "order_invalid"),
        ('{"order": "1042\\n", "cents": 4200}', "order_invalid"),
        ('{"order": "\\ud800", "cents": 4200}', "order_invalid"),
        ('{"order": "1042"}', "cents_invalid"),
        ('{"order": "1042", "cents": 0}', "cents_invalid"),
        ('{"order": "1042", "cents": -1}', "cents_invalid"),
        ('{"order": "1042", "cents": true}', "cents_invalid"),
        ('{"order": "1042", "cents": 42.0}', "cents_invalid"),
        ('{"order": "1042", "cents": "4200"}', "cents_invalid"),
        ('{"order": "1042", "cents": NaN}', "cents_invalid"),
        ('{"order": "1042", "cents": 100000001}', "cents_invalid"),
        ('{"order": "1042", "cents": 99999999999999999999}', "cents_invalid"),
    ],
)
def test_a_payment_that_is_not_understood_moves_no_money(database: Path, body: str | bytes, code: str) -> None:
    """Money moves on an order and an amount that are certain, or not at all."""
    with bank(database) as service:
        status, answer = service.ask("POST", "/payments", body, Idempotency_Key="k1")

    assert (400, code) == (status, answer["error"]["code"])
    assert [] == payments(database)


@pytest.mark.parametrize(
    ("headers", "code"),
    [({}, "key_missing"), ({"Idempotency_Key": ""}, "key_invalid"), ({"Idempotency_Key": "a b"}, "key_invalid")],
)
@pytest.mark.parametrize("switch", ["--honour-keys", "--ignore-keys"])
def test_a_payment_without_a_good_key_is_refused(
    database: Path, switch: str, headers: dict[str, str], code: str
) -> None:
    """A payment that nobody could ask for again would be out of reach for every probe."""
    with bank(database, switch) as service:
        status, answer = service.ask("POST", "/payments", ORDER_1042, **headers)

    assert (400, code) == (status, answer["error"]["code"])
    assert [] == payments(database)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/payments", 400, "key_missing"),
        ("GET", "/payments?key=", 400, "key_invalid"),
        ("GET", "/payments?key=a&key=b", 400, "key_missing"),
        ("GET", "/", 404, "not_found"),
        ("POST", "/health", 404, "not_found"),
    ],
)
def test_a_question_that_is_not_understood_says_so(
    database: Path, method: str, path: str, status: int, code: str
) -> None:
    """An empty list for a question without a key would read as "nothing was paid"."""
    with bank(database) as service:
        found, answer = service.ask(method, path)

    assert (status, code) == (found, answer["error"]["code"])


def test_a_body_above_the_limit_is_refused_unread(database: Path) -> None:
    """A service that reads whatever comes can be filled up by one caller."""
    with bank(database) as service:
        status, answer = service.ask("POST", "/payments", "", Content_Length="16385")

    assert (413, "body_too_large") == (status, answer["error"]["code"])


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """Whoever started the service learns why there is none, in one line."""
    ended = subprocess.run(command(tmp_path / "missing" / "bank.sqlite"), capture_output=True, text=True, check=False)

    assert (1, "") == (ended.returncode, ended.stdout)
    assert 1 == len(ended.stderr.splitlines())
    assert "bank.sqlite" in ended.stderr


def test_every_order_of_the_example_can_be_paid(database: Path) -> None:
    """The demo counts one payment for each line of its file, so each line must be payable."""
    with bank(database) as service:
        statuses = [service.pay(f"key-{row['order']}", row["order"], int(row["cents"]))[0] for row in orders()]

    assert [201] * 8 == statuses
    assert [row["order"] for row in orders()] == [paid["order"] for paid in payments(database)]


def test_the_orders_hold_what_real_files_hold() -> None:
    """A name with a comma and letters beyond ASCII is where a naive reader of the file goes wrong."""
    names = [row["customer"] for row in orders()]

    assert 8 == len({row["order"] for row in orders()})
    assert [name for name in names if "," in name and not name.isascii()]


@pytest.mark.parametrize("iban", [row["iban"] for row in orders()])
def test_the_account_numbers_have_true_check_digits(iban: str) -> None:
    """A reader who copies the example into a stricter service is not stopped by made-up numbers."""
    digits = "".join(str(int(letter, 36)) for letter in iban[4:] + iban[:4])

    assert 1 == int(digits) % 97
