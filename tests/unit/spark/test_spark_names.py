"""Names that ``kstore.spark`` does not have."""

import pytest

import kstore.spark


def test_an_unknown_name_is_answered_with_register() -> None:
    with pytest.raises(AttributeError, match=r"KStoreDataSource.*kstore.spark.register\(spark\)"):
        kstore.spark.KStoreDataSource  # noqa: B018
