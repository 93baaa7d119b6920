"""Records with other values, for tests."""

from typing import TypeVar

from msgspec import structs

from common.records.files import from_json
from common.records.header import Header

Kind = TypeVar("Kind", bound=Header)


def changed(record: Kind, **fields: object) -> Kind:
    """The record with these fields, as JSON has them or as a record has them."""
    return from_json(structs.asdict(record) | fields, type(record))
