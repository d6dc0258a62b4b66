"""Records that should be read but no longer exist: an error, or a warning with failOnDataLoss=false."""

import warnings


class DataLossError(Exception):
    """Records that should be read no longer exist."""


class DataLossWarning(UserWarning):
    """Records no longer exist; the query continues with the remaining ones."""


def report_data_loss(lost: str, *, fail: bool) -> None:
    """Raise, or warn. Spark's workers print each warning text once, on stderr."""
    if fail:
        raise DataLossError(f"{lost}; set failOnDataLoss=false to continue with the remaining records")
    warnings.warn(lost, DataLossWarning, stacklevel=3)
