"""scikit-learn's checks of an estimator, as pytest parameters."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator


def checks(estimator, expected_failures=None):
    """Yield every check except that of array-API inputs, which needs a setting that the tests do not use."""
    for instance, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        if name == "check_array_api_input":
            continue
        reason = (expected_failures or {}).get(name)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        yield pytest.param(instance, check, id=name, marks=marks)
