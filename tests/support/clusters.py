"""Real clusters on this machine, one of each kind for all tests of a file."""

import gc
import os
import shutil
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

TESTS = str(Path(__file__).parents[1])


def require_java():
    """Skip if there is no Java, which Spark needs."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java: install openjdk-17-jre-headless")


@contextmanager
def spark_session():
    """Start two executor threads; a task may fail three times (plain local mode has no retries)."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", TESTS)  # plug-in models of the tests
        session = (
            SparkSession.builder.master("local[2,4]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "3")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than a few rows
            .config("spark.sql.adaptive.enabled", "false")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # sockets that PySpark leaves open
                session.stop()
                gc.collect()


@contextmanager
def dask_cluster(**settings):
    """Start two worker processes of one thread each."""
    from dask.distributed import Client, LocalCluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", TESTS)
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", **settings
            ) as c,
            Client(c) as client,
        ):
            yield client
