"""The four manners in which replies are shown."""

import json
from io import BytesIO

import pytest

from disque.cli.render import as_csv, as_json, is_text, pretty, quoted, raw, render
from disque.cli.shell_reply import read_reply


def reply(wire: bytes) -> object:
    return read_reply(BytesIO(wire))


NESTED = b"*3\r\n:1\r\n*2\r\n:2\r\n*2\r\n$1\r\na\r\n*0\r\n$1\r\nx\r\n"
MAP = b"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n:2\r\n:3\r\n"

CASES = [
    # the wire, pretty, raw, CSV, JSON
    (b"+OK\r\n", b"OK", b"OK", b'"OK"', b'"OK"'),
    (b"$2\r\nOK\r\n", b'"OK"', b"OK", b'"OK"', b'"OK"'),
    (b"$0\r\n\r\n", b'""', b"", b'""', b'""'),
    (b":-7\r\n", b"(integer) -7", b"-7", b"-7", b"-7"),
    (b":0\r\n", b"(integer) 0", b"0", b"0", b"0"),
    (b"(123456789012345678901\r\n", b"(integer) 123456789012345678901", *[b"123456789012345678901"] * 3),
    (b"$-1\r\n", b"(nil)", b"", b"NULL", b"null"),
    (b"*-1\r\n", b"(nil)", b"", b"NULL", b"null"),
    (b"_\r\n", b"(nil)", b"", b"NULL", b"null"),
    (b"-ERR no\r\n", b"(error) ERR no", b"ERR no", b'ERROR,"ERR no"', b'{"error":"ERR no"}'),
    (b"!6\r\nERR no\r\n", b"(error) ERR no", b"ERR no", b'ERROR,"ERR no"', b'{"error":"ERR no"}'),
    (b"*0\r\n", b"(empty array)", b"", b"", b"[]"),
    (b"~0\r\n", b"(empty set)", b"", b"", b"[]"),
    (b"%0\r\n", b"(empty hash)", b"", b"", b"{}"),
    (b">0\r\n", b"(empty push)", b"", b"", b"[]"),
    (b"#t\r\n", b"(true)", b"(true)", b"true", b"true"),
    (b"#f\r\n", b"(false)", b"(false)", b"false", b"false"),
    (b",1.50\r\n", b"(double) 1.50", b"1.50", b"1.50", b"1.50"),
    (b",inf\r\n", b"(double) inf", b"inf", b"inf", b'"inf"'),
    (b"=7\r\ntxt:a\nb\r\n", b"a\nb", b"a\nb", rb'"a\nb"', rb'"a\nb"'),
    (b"~2\r\n+a\r\n+b\r\n", b"1~ a\n2~ b", b"a\nb", b'"a","b"', b'["a","b"]'),
    (MAP, b"1# a => (integer) 1\n2# b => \n   1) (integer) 2\n   2) (integer) 3", b"a 1\nb 2\n3", b'"a",1,"b",2,3',
     b'{"a":1,"b":[2,3]}'),
    (NESTED, b'1) (integer) 1\n2) 1) (integer) 2\n   2) 1) "a"\n      2) (empty array)\n3) "x"', b"1\n2\na\n\nx",
     b'1,2,"a",,"x"', b'[1,[2,["a",[]]],"x"]'),
    (b"|1\r\n+ttl\r\n:3\r\n:9\r\n", b"(integer) 9", b"9", b"9", b"9"),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "as_pretty", "as_raw", "csv", "json_text"), CASES)
def test_each_type_in_each_manner(wire: bytes, as_pretty: bytes, as_raw: bytes, csv: bytes, json_text: bytes) -> None:
    value = reply(wire)
    assert pretty(value) == as_pretty
    assert raw(value) == as_raw
    assert as_csv(value) == csv
    assert as_json(value) == json_text
    json.loads(json_text)


def test_numbers_are_aligned_from_ten_items_on() -> None:
    lines = pretty([0] * 9 + [[1, 2]]).split(b"\n")
    assert lines[0] == b" 1) (integer) 0"
    assert lines[9:] == [b"10) 1) (integer) 1", b"    2) (integer) 2"]


def test_a_map_value_of_one_line_stays_behind_its_key() -> None:
    assert pretty(reply(b"%1\r\n+a\r\n*1\r\n:1\r\n")) == b"1# a => 1) (integer) 1"


def test_strings_are_quoted_with_escapes() -> None:
    assert quoted(b'a"\\\n\r\t\a\b\x00\xff~ ') == rb'"a\"\\\n\r\t\a\b\x00\xff~ "'


def test_json_keeps_utf8_and_escapes_other_bytes() -> None:
    assert as_json("é".encode()) == '"é"'.encode()
    assert json.loads(as_json(b"a\xffb\x00")) == "a\\xffb\x00"


def test_json_keys_are_strings_whatever_they_were() -> None:
    assert json.loads(as_json(reply(b"%2\r\n:1\r\n+a\r\n*1\r\n+k\r\n_\r\n"))) == {"1": "a", '["k"]': None}


@pytest.mark.parametrize("digits", [b"007", b"1.", b"nan", b"-inf", b"1e"])
def test_doubles_that_json_has_not_become_strings(digits: bytes) -> None:
    assert json.loads(as_json(reply(b"," + digits + b"\r\n"))) == digits.decode()


def test_raw_keeps_every_byte_and_the_delimiter_is_free() -> None:
    assert render(b"a\r\n\x00\n", "raw") == b"a\r\n\x00\n\n"
    assert render([b"a", [b"b", 1]], "raw", delimiter=b"::") == b"a::b::1\n"


@pytest.mark.parametrize("line", ["info", "INFO jobs", "cluster Nodes", "CLUSTER INFO", "client list", "latency graph"])
def test_text_for_people_is_shown_as_it_is(line: str) -> None:
    args = [word.encode() for word in line.split()]
    assert is_text(args)
    assert render(b"# Jobs\r\na:1\r\n", "pretty", args) == b"# Jobs\r\na:1\n"
    assert render(b"a\n", "csv", args) == b'"a\\n"\n'


@pytest.mark.parametrize("line", ["show id", "cluster myid", "client", "latency latest", "client id"])
def test_other_replies_are_quoted(line: str) -> None:
    assert render(b"x", "pretty", [word.encode() for word in line.split()]) == b'"x"\n'


def test_an_error_instead_of_text_is_still_an_error() -> None:
    assert render(reply(b"-ERR no\r\n"), "pretty", [b"info"]) == b"(error) ERR no\n"


@pytest.mark.parametrize("line", ["QSTAT q", "show id", "config GET *", "hello 3"])
def test_names_and_values_are_pairs_at_the_prompt(line: str) -> None:
    args = [word.encode() for word in line.split()]
    flat: list[object] = [b"name", b"mails", b"len", 3]
    assert render(flat, "pretty", args) == b'1# "name" => "mails"\n2# "len" => (integer) 3\n'
    assert render(flat, "raw", args) == b"name\nmails\nlen\n3\n"
    assert render(flat, "csv", args) == b'"name","mails","len",3\n'
    assert render(flat, "json", args) == b'["name","mails","len",3]\n'


def test_jobs_of_jscan_are_pairs_where_all_is_told() -> None:
    args = [b"JSCAN", b"0", b"REPLY", b"ALL"]
    assert render([b"0", [[b"id", b"D-1"]]], "pretty", args) == b'1) "0"\n2) 1) 1# "id" => "D-1"\n'
    assert render([b"0", [b"D-1"]], "pretty", args[:2]) == b'1) "0"\n2) 1) "D-1"\n'


@pytest.mark.parametrize("reply", [[b"a"], [b"a", 1, 2, 3], None, 3, b"x"])
def test_what_is_not_names_and_values_stays_as_it_is(reply: object) -> None:
    assert render(reply, "pretty", [b"qstat", b"q"]) == pretty(reply) + b"\n"
    assert render([b"a", b"b"], "pretty", [b"getjob"]) == b'1) "a"\n2) "b"\n'
