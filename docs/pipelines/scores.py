"""The transform of scores.toml: a function gets the session and one DataFrame for each source, by its name."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

LARGE = 100.0


def grade(amount: float) -> str:
    return "huge" if amount >= 10 * LARGE else "large"


def large_orders(spark: SparkSession, orders: DataFrame) -> DataFrame:
    graded = F.udf(grade, "string", useArrow=False)  # Arrow needs pandas
    return orders.filter(orders.amount >= LARGE).select("id", "customer", graded("amount").alias("grade"))
