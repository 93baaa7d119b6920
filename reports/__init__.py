"""From run records to a typeset PDF: records, tables, figures, document. Imports `common` and no framework."""
