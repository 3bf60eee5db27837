"""A report of a released model: one page of HTML that needs nothing else."""

from dpem.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
