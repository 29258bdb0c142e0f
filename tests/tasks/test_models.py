"""Models of pydantic arrive as they were sent, or are refused when they are sent."""

import dataclasses
import datetime as dt
from typing import Annotated, Any, NamedTuple, NewType

import pytest

from disque.tasks.convert import loader
from disque.tasks.errors import EncodeError
from disque.tasks.message import Format, dump
from disque.tasks.options import key_of
from tests.tasks.test_convert import there_and_back

pytest.importorskip("pydantic")

import pydantic
import pydantic.dataclasses
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PlainSerializer, SecretStr


class Alias(BaseModel):
    user_id: int = Field(alias="userId")


class Written(BaseModel):
    """Has another name where it is written."""

    user_id: int = Field(serialization_alias="userId")


class Chosen(BaseModel):
    user_id: int = Field(validation_alias=AliasChoices("userId", "user"), serialization_alias="user")


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    user_id: int = Field(validation_alias="userId")


class Area(BaseModel):
    model_config = ConfigDict(extra="forbid")
    side: int

    @pydantic.computed_field  # type: ignore[prop-decorator]  # pydantic says so
    @property
    def size(self) -> int:
        """What is computed is not sent."""
        return self.side * self.side


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    at: dt.datetime
    tags: set[str]
    pair: tuple[int, dt.date]
    counts: dict[int, str]


class Body(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    body: bytes


class Tree(BaseModel):
    leaves: list["Alias | Tree"] = []


class Login(BaseModel):
    """A secret that is written."""

    user: str
    password: SecretStr
    keys: list[Annotated[SecretStr, PlainSerializer(SecretStr.get_secret_value)]] = []

    @pydantic.field_serializer("password", when_used="json")
    def written(self, password: SecretStr) -> str:
        """The password as it is."""
        return password.get_secret_value()


class Session(BaseModel):
    """What is left out, and has a default, may be what it likes."""

    user: str
    token: SecretStr | None = Field(default=None, exclude=True, validation_alias="Token")


class Names(pydantic.RootModel[dict[int, Alias]]):
    pass


@pydantic.dataclasses.dataclass
class User:
    born: dt.date
    user_id: int = Field(alias="userId")
    name: str = Field(default="Ada", alias="fullName")


WHEN = dt.datetime(2030, 1, 31, 12, tzinfo=dt.UTC)
ARRIVE = [
    Alias(userId=7),
    Written(user_id=7),
    Chosen.model_validate({"user": 7}),
    ByName(user_id=7),
    Area(side=3),
    Strict(at=WHEN, tags={"a"}, pair=(1, WHEN.date()), counts={1: "a"}),
    Body(body=b"\xff\x00"),
    Tree(leaves=[Alias(userId=7), Tree()]),
    Login(user="ada", password=SecretStr("tiger"), keys=[SecretStr("key")]),
    Session(user="ada"),
    Names({1: Alias(userId=7)}),
    User(born=WHEN.date(), userId=7),
]


@pytest.mark.parametrize("model", ARRIVE, ids=lambda model: type(model).__name__)
def test_a_model_comes_back_as_it_was(model: object) -> None:
    assert there_and_back(model, type(model)) == model
    assert there_and_back([model], list.__class_getitem__(type(model))) == [model]


@dataclasses.dataclass
class Plain:
    password: SecretStr


class Secret(BaseModel):
    password: SecretStr | None = None


class Secrets(BaseModel):
    by_name: dict[str, list[Secret]]


class Other(BaseModel):
    plain: Plain


class Pair(NamedTuple):
    password: SecretStr


Password = NewType("Password", SecretStr)


class Pairs(BaseModel):
    pairs: list[Pair]


class New(BaseModel):
    password: Password


class Number(BaseModel):
    pin: pydantic.Secret[int]


class Kept(BaseModel):
    number: int = Field(exclude=True)


class Renamed(BaseModel):
    user_id: int = Field(validation_alias="userId", serialization_alias="user")


class Raw(BaseModel):
    body: bytes


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Secret(password=SecretStr("tiger")), r"Secret\.password cannot be sent: pydantic hides secrets"),
        (Secrets(by_name={}), r"Secret\.password cannot be sent"),
        (Other(plain=Plain(SecretStr("tiger"))), r"Plain\.password cannot be sent"),
        (Pairs(pairs=[]), r"Pair\.password cannot be sent"),
        (New(password=Password(SecretStr("tiger"))), r"New\.password cannot be sent"),
        (Plain(SecretStr("tiger")), "SecretStr cannot be sent"),
        (Number(pin=pydantic.Secret(1234)), r"Number\.pin cannot be sent"),
        (Kept(number=1), r"Kept\.number cannot be sent: it has exclude=True, and no default"),
        (
            Renamed.model_validate({"userId": 7}),
            r"Renamed\.user_id cannot be sent: it is written by one name, and read by another",
        ),
        (Raw(body=b"\xff"), r"Raw cannot be sent: .* Give it model_config = ConfigDict\(ser_json_bytes"),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_a_model_that_would_not_arrive_as_it_is_is_refused(form: Format, model: object, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        dump({"args": [model]}, form)


def test_one_that_is_only_read_is_what_another_program_has_sent() -> None:
    def read(value: object, annotation: Any) -> object:
        return there_and_back(value, annotation)

    assert read({"password": "tiger"}, Secret) == Secret(password=SecretStr("tiger"))
    assert read({"number": 1}, Kept) == Kept(number=1)
    assert read({"userId": 7}, Renamed) == Renamed.model_validate({"userId": 7})
    assert read({"userId": 7}, Chosen) == Chosen.model_validate({"user": 7})


def test_bytes_that_another_program_has_sent_in_msgpack() -> None:
    load = loader(Raw)
    assert load is not None
    assert load({"body": b"\xff"}) == Raw(body=b"\xff")


@pytest.mark.parametrize("rule", [True, "{who}", "{all[0]}"])
def test_two_secrets_are_not_one_job(rule: str | bool) -> None:
    def key(word: str) -> str | None:
        who = Login(user="ada", password=SecretStr(word))
        return key_of("login", rule, {"who": who, "all": [who]})

    assert key("one") == key("one")
    assert key("one") != key("two")


def test_a_secret_itself_is_no_part_of_a_key() -> None:
    with pytest.raises(EncodeError, match="SecretStr cannot be sent"):
        key_of("login", "{who.password}", {"who": Login(user="ada", password=SecretStr("one"))})
