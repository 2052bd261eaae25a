"""The dictionary with an open page, against plain dictionaries."""

from hypothesis import given
from hypothesis import strategies as st

from clew.core.book import Book

names = st.sampled_from("abcde")
deeds = st.lists(st.tuples(names, st.none() | st.integers(0, 9)))


def do(book: Book[int], steps: list[tuple[str, int | None]]) -> Book[int]:
    for name, entry in steps:
        if entry is None:
            book.strike(name)
        else:
            book.put(name, entry)
    return book


def model(*pages: list[tuple[str, int | None]]) -> dict[str, int]:
    held: dict[str, int] = {}
    for page in pages:
        for name, entry in page:
            if entry is None:
                held.pop(name, None)
            else:
                held[name] = entry
    return held


@given(deeds)
def test_a_book_is_a_dictionary(first: list[tuple[str, int | None]]) -> None:
    """Content and order of a book without a fork are those of a dict."""
    book = do(Book(), first)

    assert list(model(first).items()) == list(book.items())


@given(deeds, deeds, deeds)
def test_a_fork_sees_everything_beneath_it(
    first: list[tuple[str, int | None]], second: list[tuple[str, int | None]], third: list[tuple[str, int | None]]
) -> None:
    """An append is judged on a fork, and a trial on a fork of that: each must see what the whole will be."""
    fork = do(do(do(Book(), first).fork(), second).fork(), third)

    expected = model(first, second, third)

    assert expected == dict(fork.items())
    assert [expected.get(name) for name in "abcde"] == [fork.get(name) for name in "abcde"]
    assert (len(expected), sorted(expected.values())) == (len(fork), sorted(fork.values()))


@given(deeds, deeds)
def test_a_fork_changes_nothing_beneath_it(
    first: list[tuple[str, int | None]], second: list[tuple[str, int | None]]
) -> None:
    """A refused append leaves the state as it was."""
    book = do(Book(), first)
    do(book.fork(), second)

    assert list(model(first).items()) == list(book.items())


@given(deeds, deeds)
def test_a_merged_fork_is_taken_over_whole(
    first: list[tuple[str, int | None]], second: list[tuple[str, int | None]]
) -> None:
    """What was judged on the fork is what the state becomes, in the same order, entries struck out included."""
    book = do(Book(), first)
    fork = do(book.fork(), second)
    seen = list(fork.items())
    book.merge(fork)

    assert model(first, second) == dict(seen)
    assert seen == list(book.items())


def test_a_merge_into_a_fork_stays_there() -> None:
    """Striking out on a fork of a fork must hide what lies two pages down, and only there."""
    book = do(Book(), [("a", 1), ("b", 2)])
    middle = book.fork()
    middle.merge(do(middle.fork(), [("a", None), ("c", 3)]))

    assert ([("b", 2), ("c", 3)], [("a", 1), ("b", 2)]) == (list(middle.items()), list(book.items()))


def test_a_struck_entry_leaves_nothing_behind() -> None:
    """Pending calls come and go; a book that kept their places would grow with every call (DESIGN §6)."""
    book = do(Book(), [("a", 1), ("b", 2)])
    book.merge(do(book.fork(), [("a", None)]))
    book.put("a", 3)

    assert [("b", 2), ("a", 3)] == list(book.items())


def test_entries_stand_in_the_order_in_which_they_first_came() -> None:
    """The plan lists calls in the order of the journal, however often each was replaced."""
    fork = do(do(Book(), [("a", 1), ("b", 2)]).fork(), [("c", 3), ("a", 4)])

    assert [("a", 4), ("b", 2), ("c", 3)] == list(fork.items())


@given(deeds, deeds, names, st.integers(0, 9))
def test_a_merged_fork_stands_for_its_book_again(
    first: list[tuple[str, int | None]], then: list[tuple[str, int | None]], name: str, entry: int
) -> None:
    """A leg uses one fork for all its appends; what it took over once must not hide what came to the book since."""
    book = do(Book[int](), first)
    fork = do(book.fork(), then)
    book.merge(fork)
    book.put(name, entry)

    assert dict(book.items()) == dict(fork.items())
