"""Records that should be read but no longer exist: an error, or a warning with failOnDataLoss=false."""

import warnings


class DataLossError(Exception):
    """Records that were to be read are no longer there."""


class DataLossWarning(UserWarning):
    """The same, and the query goes on with what is left."""


def report_data_loss(lost: str, *, fail: bool) -> None:
    """Raise, or warn: Spark's workers show warnings on their error output, and each text once."""
    if fail:
        raise DataLossError(f"{lost}; set failOnDataLoss=false to go on with what is left")
    warnings.warn(lost, DataLossWarning, stacklevel=3)
