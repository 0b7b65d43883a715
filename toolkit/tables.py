"""Tables for notebooks as DataFrames of pandas, which is imported only then, since that takes half a second."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolkit.extras import require

if TYPE_CHECKING:
    from pandas import DataFrame


def data_frame(rows: Sequence[Any], columns: Sequence[str] | None = None) -> "DataFrame":
    """Make a DataFrame with a row for each of ``rows``, mappings or tuples.

    Args:
        rows: the rows.
        columns: names of the columns in their order; None: as the rows have them.

    Raises:
        MissingExtra: pandas is not installed.
    """
    require("pandas")
    from pandas import DataFrame  # noqa: PLC0415 - see above

    return DataFrame(rows, columns=None if columns is None else list(columns))
