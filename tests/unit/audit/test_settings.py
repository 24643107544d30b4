"""Settings of Spark that whoever audits gives."""

import pytest

from chaos.audit import settings
from chaos.audit.logs import AuditUsageError
from chaos.judging.spark_session import NotStartedError


def test_a_value_may_have_any_letters():
    """Only the first equals sign is one; blanks around it are not part of name or value."""
    given = ["spark.executor.extraJavaOptions=-Da=b -Dc=d", " spark.executor.memory = 8g "]

    assert settings.read(given) == {
        "spark.executor.extraJavaOptions": "-Da=b -Dc=d",
        "spark.executor.memory": "8g",
    }


def test_a_setting_that_spark_names_is_wrong_usage():
    error = NotStartedError("Spark failed: spark.executor.cores should be int, but was many")

    with pytest.raises(AuditUsageError, match=r"^--spark-conf spark\.executor\.cores=many: .* mend it, or leave it out$"):
        settings.blamed({"spark.a": "1", "spark.executor.cores": "many"}, error)


def test_others_may_be_the_reason():
    """Or they are not: the cluster may be down."""
    error = NotStartedError("Spark failed: Invalid maximum heap size: -Xmxlots")

    said = str(settings.blamed({"spark.driver.memory": "lots"}, error))

    assert said.startswith(str(error))
    assert "--spark-conf spark.driver.memory=lots" in said


def test_without_settings_nothing_is_added():
    error = NotStartedError("Spark failed: no")

    assert settings.blamed({}, error) is error
