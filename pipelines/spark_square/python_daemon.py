"""PySpark's daemon with the imports of the sink done: its workers are forked from it, so each executor imports only once.

Source: ``spark.python.daemon.module`` (`PythonWorkerFactory`).
"""

import confluent_kafka  # noqa: F401 - imported before the fork; no client is made before it
import pandas as pd  # noqa: F401
import pyarrow as pa  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
