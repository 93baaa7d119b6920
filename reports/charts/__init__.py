"""The figures of a report: one function for each, which draws it once for the PDF, the page and the README."""
