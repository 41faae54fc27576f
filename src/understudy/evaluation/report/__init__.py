"""The report: one self-contained HTML file that shows how far a stand-in can be trusted.

The input is plain data (`ReportData`), the output a page without scripts and without anything to
fetch: pictures are PNG data URIs, curves are inline SVG. It follows the evaluation of the FDDA
paper, and adds which frame is worst and where on the body the errors are.
"""

from understudy.evaluation.report.page import report_data, write_report
from understudy.evaluation.report.tables import figures_table, figures_that_matter

__all__ = ["figures_table", "figures_that_matter", "report_data", "write_report"]
