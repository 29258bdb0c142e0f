from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import messages
from cluster.capabilities import CAPABILITIES
from cluster.messages import (
    ENTRIES,
    ENTRY_SHAPE,
    FIELDS,
    GOSSIP_SHAPE,
    GOTJOB,
    HOLD,
    JOB_SHAPE,
    KINDS,
    LIST_MOST,
    MORE,
    MORE_MOST,
    NAMED_MOST,
    NEEDS,
    PING,
    QUEUED,
    REPLJOB,
    ROWS_MOST,
    SETACK,
    SURVEYED,
    YOURJOBS,
    BadFrameError,
    Message,
    Shape,
    decode,
    encode_message,
    frame,
)
from tests.support.formats import repljob, repljob_with, row_with, yourjobs_row

ID, OTHER_ID = b"D-" + b"x" * 38, b"D-" + b"y" * 38
NODE = b"a" * 40
JOB = yourjobs_row(ID, left_ms=86_399_000, deliveries=1, holders=(NODE,))
ENTRY = (1, b"q", b"", b"3", 2**61, NODE, 0)
ROW = (NODE, b"10.0.0.1", 7711, 17711, 0)
COPY = repljob(ID, holders=(NODE,))

#: A value for each sort of field.
SAMPLES: dict[str, Any] = {
    "number": 7,
    "stamp": 2**61,
    "bytes": b"some",
    "id": ID,
    "ids": (ID, OTHER_ID),
    "numbers": (1, 2),
    "stamps": (2**61, 0),
    "bodies": (b"one", b""),
    "jobs": (JOB, JOB),
    "gossip": (ROW,),
    "entries": (ENTRY,),
    "words": (b"one", b""),
}

#: Values that no node puts into a field of that sort.
WRONG: dict[str, list[Any]] = {
    "number": [-1, 2**43, 2**64 - 1, b"7", None, True, 1.5, (7,)],
    "stamp": [-1, 2**62, 2**64 - 1, b"7", None, False, 1.5, (7,)],
    "bytes": [7, None, (), (b"x",), True],
    "id": [b"", ID[1:], ID + b"x", 7, None, (ID,)],
    "ids": [(ID[1:], OTHER_ID), (ID, OTHER_ID + b"x"), (ID, 7), ((0,) * 40, ID), (None,), ID, 7, None, (ID[1:],), (7,)],
    "numbers": [(1,), (1, 2, 3), (1, -1), (1, 2**43), (1, b"2"), (True, False), b"12", 7, None],
    "stamps": [(1,), (1, 2, 3), (1, -1), (1, 2**62), (1, b"2"), (True, False), b"12", 7, None],
    "bodies": [(b"one",), (b"one", b"two", b""), (b"one", 2), (b"one", None), (b"one", (b"two",)), b"12", 7, None],
    "jobs": [(ID,), ((),), (JOB[:-2],), (JOB, (7, *JOB[1:])), (row_with(JOB, holders=(b"x",)),), b"", 7],
    "entries": [(NODE,), ((),), (ENTRY[:-1],), ((b"1", *ENTRY[1:]),), ((*ENTRY[:-2], b"a", 0),), b"", None],
    "words": [(b"one", 2), (None,), ((b"x",),), (True,), b"12", 7, None],
    "gossip": [(NODE,), ((),), (ROW[:-1],), ((b"x", *ROW[1:]),), ((*ROW[:-1], -1),), b"", None],
}


def sample(kind: int) -> Message:
    return (kind, *[SAMPLES[FIELDS[name]] for name in KINDS[kind][1].fields])


def payload(*values: Any) -> bytes:
    """A frame without its length, of whatever values."""
    packed: bytes = msgpack.packb(values)
    return packed


def refused(data: bytes) -> str:
    with pytest.raises(BadFrameError) as caught:
        decode(data)
    return str(caught.value)


class TestTable:
    def test_numbers_are_for_ever(self) -> None:
        names = (
            "PING PONG MEET FAIL REPLJOB GOTJOB ENQUEUE QUEUED SETACK WILLQUEUE GOTACK DELJOB NEEDJOBS YOURJOBS "
            "WORKING ENTRIES ABORT REFUSED ANSWER HOLD HAVE BIND BOUND KEYHELD UNBIND "
            "KEEPKEY KEYKEPT KEYSAFE ASKKEY KEYFREE OFFER NEEDNOW STOPPING LIMIT DIGEST "
            "MOVED GOTMOVE SURVEY SURVEYED MORE ENDED WATCH PUBLISHED ASKCOPY COPYIS UPSINCE TAKEJOB "
            "ASKEND KEEPEND"
        )
        assert [name for name, _ in KINDS.values()] == names.split()
        assert list(KINDS) == list(range(49))
        assert all(getattr(messages, name) == number for number, (name, _) in KINDS.items())

    def test_every_field_is_used(self) -> None:
        shapes = [shape for _, shape in KINDS.values()] + [JOB_SHAPE, GOSSIP_SHAPE, ENTRY_SHAPE]
        assert {name for shape in shapes for name in shape.fields} == set(FIELDS)

    def test_a_list_of_numbers_follows_the_ids_that_it_belongs_to(self) -> None:
        assert KINDS[HOLD][1].fields[-2:] == ("ids", "ms")
        assert KINDS[REPLJOB][1].fields[-4:] == ("ids", "bodies", "ctimes", "more")

    @pytest.mark.parametrize(
        ("prefix", "shape", "first"),
        [("REPLJOB_", KINDS[REPLJOB][1], 1), ("YOURJOBS_", KINDS[YOURJOBS][1], 1), ("ROW_", JOB_SHAPE, 0)],
    )
    def test_what_has_many_fields_has_a_name_for_each_place(self, prefix: str, shape: Shape, first: int) -> None:
        named = {name: at for name, at in vars(messages).items() if name.startswith(prefix)}
        assert named == {prefix + name.upper(): at for at, name in enumerate(shape.fields, first)}


@pytest.mark.parametrize("kind", KINDS, ids=[name for name, _ in KINDS.values()])
class TestEachKind:
    def test_it_comes_back_as_it_was(self, kind: int) -> None:
        assert decode(frame([encode_message(sample(kind))])[4:]) == [sample(kind)]

    def test_a_wrong_value_in_any_field_is_refused(self, kind: int) -> None:
        message = sample(kind)
        for at, name in enumerate(KINDS[kind][1].fields, 1):
            for wrong in WRONG[FIELDS[name]]:
                assert KINDS[kind][0] in refused(payload((*message[:at], wrong, *message[at + 1 :]))), (name, wrong)

    def test_fields_of_a_later_version_are_cut_off(self, kind: int) -> None:
        for more in ((0,), (b"x",), (None, -1, 1.5), ((ID, (b"",)),)):
            assert decode(payload((*sample(kind), *more), COPY)) == [sample(kind), COPY]

    def test_but_the_known_ones_must_be_right_all_the_same(self, kind: int) -> None:
        for at, name in enumerate(KINDS[kind][1].fields, 1):
            for wrong in WRONG[FIELDS[name]]:
                message = sample(kind)
                assert KINDS[kind][0] in refused(payload((*message[:at], wrong, *message[at + 1 :], 0))), (name, wrong)

    def test_a_field_too_few_is_refused(self, kind: int) -> None:
        refused(payload(sample(kind)[: -1 - len(KINDS[kind][1].added)]))
        refused(payload((kind,)))


class TestOtherVersions:
    def test_rows_of_a_later_version_are_cut_off_wherever_they_stand(self) -> None:
        later = (*JOB, b"more", (1, None))
        assert decode(payload((YOURJOBS, b"q", (JOB, later)))) == [(YOURJOBS, b"q", (JOB, JOB))]
        assert decode(payload((YOURJOBS, b"q", (later,), 7))) == [(YOURJOBS, b"q", (JOB,))]
        assert decode(payload((PING, 0, b"", 1, 2, ((*ROW, b"zone"),), 9))) == [(PING, 0, b"", 1, 2, (ROW,))]

    def test_what_was_added_is_filled_in_where_an_earlier_version_does_not_send_it(self) -> None:
        shape = Shape("queue count? ip? gossip?", 1)
        assert shape.fields == ("queue", "count", "ip", "gossip")
        assert shape.levelled((99, b"q")) == (99, b"q", 0, b"", ())
        assert shape.levelled((99, b"q", 7)) == (99, b"q", 7, b"", ())
        assert shape.levelled((99, b"q", 7, b"x", (ROW,), 1)) == (99, b"q", 7, b"x", (ROW,))
        assert shape.levelled((99,)) is None
        assert shape.levelled((99, b"q", b"7")) is None
        assert shape.levelled((99, 7)) is None

    def test_rows_of_an_earlier_version_are_filled_in_as_well(self) -> None:
        assert Shape("node_id count?", 0).row((NODE,)) == (NODE, 0)
        assert Shape("node_id count?", 0).row((NODE, 7)) == (NODE, 7)
        for wrong in ((b"x",), 7, ()):
            assert Shape("node_id count?", 0).row(wrong) == wrong

    @pytest.mark.parametrize("fields", ["queue? count", "queue count? ids", "id?", "ids ms?", "ids bodies?"])
    def test_what_cannot_be_filled_in_cannot_be_added(self, fields: str) -> None:
        with pytest.raises(AssertionError):
            Shape(fields, 1)

    def test_a_kind_that_came_later_needs_a_capability_that_the_table_has(self) -> None:
        assert set(KINDS) - set(NEEDS) == set(range(33)) - {ENTRIES}
        assert set(NEEDS.values()) <= set(CAPABILITIES)


class TestValues:
    def test_lists_may_be_empty(self) -> None:
        for message in ((GOTJOB, ()), (SETACK, (), ()), (HOLD, 0, (), (), ()), (YOURJOBS, b"q", ())):
            assert decode(payload(message)) == [message]

    @pytest.mark.parametrize("number", [0, 1, 2**43 - 1])
    def test_numbers_up_to_their_limit_pass(self, number: int) -> None:
        message = (QUEUED, number, (ID,))
        assert decode(payload(message)) == [message]

    def test_a_body_may_be_of_any_size_and_bytes_stay_bytes(self) -> None:
        message = repljob_with(COPY, bodies=(bytes(range(256)) * 5000,))
        assert decode(frame([encode_message(message)])[4:]) == [message]

    def test_the_longest_list_passes_and_a_longer_one_does_not(self) -> None:
        """What nodes say of 1,000 jobs may be long; a member that lies cannot hold a node for as long as it likes."""
        assert decode(payload((GOTJOB, (ID,) * ROWS_MOST))) == [(GOTJOB, (ID,) * ROWS_MOST)]
        refused(payload((GOTJOB, (ID,) * (ROWS_MOST + 1))))
        assert decode(payload((ENTRIES, (ENTRY,) * ROWS_MOST)))
        refused(payload((ENTRIES, (ENTRY,) * (ROWS_MOST + 1))))

    def test_of_many_jobs_not_too_much_more_is_said(self) -> None:
        size = MORE_MOST // ROWS_MOST
        assert decode(payload((MORE, b"x" * size, (ID,) * ROWS_MOST)))
        refused(payload((MORE, b"x" * (size + 1), (ID,) * ROWS_MOST)))

    def test_of_many_jobs_not_too_many_holders_are_named(self) -> None:
        assert decode(payload((SETACK, (ID,) * (NAMED_MOST // ROWS_MOST), (ID,) * ROWS_MOST)))
        refused(payload((SETACK, (ID,) * (NAMED_MOST // ROWS_MOST + 1), (ID,) * ROWS_MOST)))
        assert decode(payload((SURVEYED, 1, (b"",) * LIST_MOST)))
        refused(payload((SURVEYED, 1, (b"",) * (LIST_MOST + 1))))


class TestFrame:
    @pytest.mark.parametrize("count", [0, 1, 15, 16, 65535, 65536, LIST_MOST])
    def test_it_holds_any_number_of_messages_in_order(self, count: int) -> None:
        sent = [(QUEUED, number, ()) for number in range(count)]
        data = frame([encode_message(message) for message in sent])
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        assert decode(data[4:]) == sent

    def test_more_messages_than_a_list_may_hold_are_a_fault_of_the_caller(self) -> None:
        with pytest.raises(AssertionError):
            frame([b"\x90"] * (LIST_MOST + 1))

    def test_what_is_encoded_once_goes_into_any_number_of_frames(self) -> None:
        part = encode_message((GOTJOB, (ID,)))
        assert decode(frame([part, part])[4:]) == [(GOTJOB, (ID,))] * 2


class TestUnknownKinds:
    def test_they_are_handed_on(self) -> None:
        later = (99, b"a key", (1, (2, None, True, 1.5)))
        assert decode(payload(later, COPY)) == [later, COPY]
        assert decode(payload((2**64 - 1,), (-1,))) == [(2**64 - 1,), (-1,)]

    @pytest.mark.parametrize("value", ["text", {1: 2}, msgpack.ExtType(5, b"x"), msgpack.Timestamp(1)])
    def test_but_there_is_no_text_no_map_and_no_extension_in_any_version(self, value: Any) -> None:
        refused(payload((99, value)))


class TestGarbage:
    @pytest.mark.parametrize("value", [7, None, b"x", {}, True])
    def test_a_frame_is_an_array(self, value: Any) -> None:
        assert refused(msgpack.packb(value))

    @pytest.mark.parametrize("value", [7, None, b"x", (), (b"x",), (None,), (True,), ((1,),), (1.0,)])
    def test_a_message_is_an_array_that_begins_with_its_kind(self, value: Any) -> None:
        assert refused(payload(value)) == "a message does not begin with its kind"

    def test_one_bad_message_spoils_the_frame(self) -> None:
        refused(payload(COPY, (GOTJOB, (b"x",)), COPY))

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\x91",
            payload(COPY)[:-1],
            payload(COPY) + b"\x00",
            b"\xdd\xff\xff\xff\xff",  # counts that lie
            b"\x91\x92\x05\xdd\x00\x01\x86\xa0" + b"\xc4\x28" + b"x" * 40,
            b"\x91\x92\x05\xc6\xff\xff\xff\xff",
            b"\x91" * 5000,  # deeper than anybody looks
            b"\xc1",
        ],
    )
    def test_what_is_no_msgpack_is_refused(self, data: bytes) -> None:
        assert refused(data).startswith("a frame is not msgpack")

    @given(st.binary(max_size=100))
    def test_any_bytes_are_messages_or_refused(self, data: bytes) -> None:
        try:
            found = decode(data)
        except BadFrameError:
            return
        assert all(isinstance(message[0], int) for message in found)

    @given(st.data())
    def test_a_changed_byte_never_yields_a_wrong_shape(self, data: st.DataObject) -> None:
        good = payload(COPY, (PING, 0, b"", 1, 2, (ROW,)), (YOURJOBS, b"q", (JOB,)))
        at = data.draw(st.integers(0, len(good) - 1))
        try:
            found = decode(good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :])
        except BadFrameError:
            return
        for message in found:
            kind = message[0]
            assert isinstance(kind, int)
            assert kind not in KINDS or KINDS[kind][1].fits(message)


def test_a_shape_with_one_number_or_none_is_checked_as_well() -> None:
    assert Shape("port", 0).fits((7,))
    assert not Shape("port", 0).fits((-7,))
    assert Shape("ip", 0).fits((b"",))
