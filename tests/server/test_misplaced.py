from collections.abc import Mapping

import pytest

from disque.core.journal.frames import UNLINKED, Head
from disque.server.misplaced import Found, Misplaced, find_misplaced

A, B = b"a" * 40, b"b" * 40


def find(found: Found, own: bytes = b"") -> list[Misplaced]:
    files = find_misplaced(found, own, lambda number: f"f.{number}")
    assert all(f"f.{file.number} " in file.why for file in files)
    return files


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({}, []),
        ({1: 1, 2: 2, 4: 4}, []),
        ({1: 1, 2: 0}, []),  # cannot be read: damage, which is for others to judge
        ({2: 1}, [(2, 1)]),
        ({0: 1}, [(0, 1)]),
        ({1: 2, 2: 1, 3: 3}, [(1, 2), (2, 1)]),
        ({1: 2, 2: 3, 3: 1}, [(1, 2), (2, 3), (3, 1)]),
        ({1: 1, 2: 1}, [(2, 0)]),
        ({1: 1, 2: 3, 4: 3}, [(2, 3), (4, 0)]),
    ],
)
def test_files_under_wrong_numbers_are_named_with_their_right_ones(
    claims: dict[int, int], expected: list[tuple[int, int]]
) -> None:
    found = Found()
    found.claims = claims
    assert [(file.number, file.belongs) for file in find(found)] == expected


def row(journals: Mapping[int, str], *, links: bool = True) -> Found:
    """Files of the journals that these letters stand for, each written by the node of that name."""
    found = Found()
    for number, letter in journals.items():
        salt = 65536 * 7 + ord(letter) * 100 + number
        found.claims[number] = number
        found.heads[number] = Head(number, salt, 0, 1, rebase=False, follows=salt % 65536 - 1 if links else UNLINKED)
        found.writers[number] = letter.encode() * 40
    return found


@pytest.mark.parametrize(
    ("letters", "own", "strangers"),
    [
        ("aaa", A, ""),
        ("aaa", B, ""),  # it got another ID
        ("aab", A, "3"),
        ("baa", A, "1"),
        ("aba", A, "2"),
        ("aba", B, "13"),
        ("aba", b"", "2"),
        ("abab", A, "24"),
        ("ab", b"", "2"),
        ("abb", A, "23"),
        ("abb", b"", "1"),
        ("a-b", A, ""),  # what is between them is missing
    ],
)
def test_files_that_do_not_follow_each_other_are_of_two_journals(letters: str, own: bytes, strangers: str) -> None:
    journals = {number: letter for number, letter in enumerate(letters, 1) if letter != "-"}
    assert [str(file.number) for file in find(row(journals), own) if not file.belongs] == list(strangers)
    assert not find(row(journals, links=False), own)


def test_it_is_said_of_which_node_a_stranger_is() -> None:
    assert f"from a journal of node {B.decode()}" in find(row({1: "a", 2: "b"}), A)[0].why
    found = row({1: "a", 2: "b"})
    found.writers[2] = A
    assert "from another time or another journal" in find(found, A)[0].why


def test_a_file_whose_head_cannot_be_read_follows_whatever_there_is() -> None:
    found = row({1: "a", 2: "a", 3: "b"})
    found.heads[2] = None
    assert not find(found)
