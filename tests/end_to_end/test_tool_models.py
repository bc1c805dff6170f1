"""Tools whose arguments are models of pydantic, in real boxes that have pydantic because the tool requires it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox, Status
from tests.end_to_end.packages import publish_installed, requiring
from tests.indexes import LocalIndex

pytestmark = pytest.mark.slow

PACKAGES: Final = ("pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection")
SHOP: Final = requiring(
    ("pydantic",),
    '''
from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal, Optional, Union
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, conint, field_validator, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass


class Size(str, Enum):
    SMALL = "s"
    LARGE = "l"


class Item(BaseModel):
    """What is bought."""

    model_config = ConfigDict(frozen=True)
    name: str = Field(min_length=2, description="Its name.")
    price: Decimal = Decimal("1.50")
    size: Size = Size.SMALL
    tags: set[str] = Field(default_factory=set)


class Card(BaseModel):
    kind: Literal["card"]
    number: str = Field(exclude=True)


class Cash(BaseModel):
    kind: Literal["cash"]
    amount: int


Payment = Annotated[Union[Card, Cash], Field(discriminator="kind")]


class Numbered(BaseModel):
    id: Optional[UUID] = None


class Order(Numbered):
    items: list[Item]
    on: date = Field(alias="orderDate")
    payment: Payment
    parent: Optional[Order] = None
    extra: dict[str, Item] = {}

    @field_validator("on")
    @classmethod
    def _is_recent(cls, value: date) -> date:
        if value.year < 2000:
            raise ValueError("too long ago")
        return value

    @model_validator(mode="after")
    def _has_items(self) -> Order:
        if not self.items:
            raise ValueError("there are no items")
        return self


@checked_dataclass
class Place:
    x: int
    y: float = 0.0


def buy(order: Order, place: Place, first: Optional[Item] = None, times: conint(ge=1) = 1) -> Order:
    """Buy.

    Args:
        order: What to buy.
        place: Where to send it.
        first: What to send before.
        times: How often.

    Returns:
        The order.
    """
    assert [type(each).__name__ for each in (order, order.items[0], place)] == ["Order", "Item", "Place"]
    print(repr(order.items[0]), repr(order.on), repr(order.payment), repr(place), repr(first), times)
    return order


def refund(order: Order) -> int:
    """Give the money back.

    Args:
        order: What was bought.

    Returns:
        What is left.
    """
    raise RuntimeError("no money")
''',
)
ORDER: Final[dict[str, Any]] = {
    "items": [{"name": "pen", "price": "2.5", "size": "l", "tags": ["a", "a"]}],
    "orderDate": "2024-05-01",
    "payment": {"kind": "cash", "amount": 3},
}
PRINTED: Final = (
    "Item(name='pen', price=Decimal('2.5'), size=<Size.LARGE: 'l'>, tags={'a'}) datetime.date(2024, 5, 1)"
    " Cash(kind='cash', amount=3) Place(x=3, y=0.0) Item(name='ink', price=Decimal('1.50'), size=<Size.SMALL: 's'>,"
    " tags=set()) 2\n"
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pydantic that these tests run with."""
    folder = tmp_path_factory.mktemp("wheels")
    publish_installed(folder, *PACKAGES)
    return folder


@pytest.fixture(scope="module")
def sandbox(index: LocalIndex, store: Path) -> Iterator[Sandbox]:
    """Open an engine whose store is the module's own."""
    with Sandbox(backend="subprocess", store=store) as engine:
        yield engine


def test_a_tool_gets_the_models_that_it_declares_and_may_return_one(sandbox: Sandbox) -> None:
    parent = {**ORDER, "payment": {"kind": "card", "number": "123"}}
    arguments = {"order": {**ORDER, "parent": parent}, "place": {"x": "3"}, "first": {"name": "ink"}, "times": 2}
    outcome = sandbox.run(SHOP, arguments, entry="buy")
    assert outcome.status is Status.OK, outcome
    assert outcome.stdout.text == PRINTED
    value: Any = outcome.value
    assert (value["on"], value["parent"]["payment"]) == ("2024-05-01", {"kind": "card"})
    assert outcome.warnings == ()


def test_what_a_model_returns_is_what_its_schema_says(sandbox: Sandbox) -> None:
    report = sandbox.check(SHOP, entry="buy")
    assert report.ok, report.problems
    chosen = report.chosen()
    assert chosen is not None
    assert chosen.returns is not None
    order = chosen.returns["$defs"]["Order"]
    assert {"on", "items", "payment"} <= set(order["properties"])
    assert "orderDate" in chosen.schema_["parameters"]["$defs"]["Order"]["properties"]


@pytest.mark.parametrize(
    ("change", "place", "paths"),
    [
        ({"orderDate": "1999-01-01"}, {"x": 1}, ["order.orderDate"]),
        ({"items": []}, {"x": 1}, ["order"]),
        ({"items": [{"name": "x"}]}, {"x": "one"}, ["order.items[0].name", "place.x"]),
        ({"on": "2024-05-01"}, {"x": 1, "z": 2}, ["order.on", "place.z"]),
        ({"payment": {"kind": "cash"}}, {"x": 1}, ["order.payment"]),
        ({"parent": {**ORDER, "orderDate": "1999-01-01"}}, {"x": 1}, ["order.parent.orderDate"]),
    ],
    ids=["by its validator", "as a whole", "by its schema", "for its names", "no member of a union", "inside itself"],
)
def test_a_value_that_a_model_refuses_is_invalid_with_its_path(
    change: dict[str, Any], place: dict[str, Any], paths: list[str], sandbox: Sandbox
) -> None:
    outcome = sandbox.run(SHOP, {"order": {**ORDER, **change}, "place": place}, entry="buy")
    assert outcome.status is Status.INVALID
    assert outcome.stdout.text == ""
    assert outcome.error is not None
    assert [part.partition(": ")[0] for part in outcome.error.message.split("; ")] == paths


def test_a_tool_that_raises_with_a_model_in_its_hands_has_raised(sandbox: Sandbox) -> None:
    outcome = sandbox.run(SHOP, {"order": ORDER}, entry="refund")
    assert outcome.status is Status.EXCEPTION
    assert outcome.error is not None
    assert outcome.error.message == "no money"
