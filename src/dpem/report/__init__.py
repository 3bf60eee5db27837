"""A report of a released model, as one self-contained HTML file.

May import: the registry, estimators, privacy statements. Never sees: rows, a particular model.
"""

from dpem.estimator.summary import column_names
from dpem.report.contents import profile_of
from dpem.report.html import render_report, write_report

__all__ = ["column_names", "profile_of", "render_report", "write_report"]
