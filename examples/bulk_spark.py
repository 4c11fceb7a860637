"""The entities of a Spark table, as rows. Needs the extra ``spark``, and Java: ``pip install nestree[spark]``."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import explode

from nestree.prediction.engines.spark import spark_udf


def main() -> None:
    """Reads Parquet, finds entities, writes Parquet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="folder of a saved model, there on every machine")
    parser.add_argument("inputs", help="Parquet with the columns 'id' and 'text'")
    parser.add_argument("output")
    options = parser.parse_args()

    session = SparkSession.builder.appName("nestree").getOrCreate()
    documents = session.read.parquet(options.inputs)
    found = documents.select("id", spark_udf(options.model)("text").entities.alias("entities"))
    found.select("id", explode("entities").alias("entity")).select("id", "entity.*").write.parquet(options.output)
    session.read.parquet(options.output).groupBy("label").count().orderBy("label").show()
    session.stop()


if __name__ == "__main__":
    main()
