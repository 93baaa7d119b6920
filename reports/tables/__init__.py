"""From records to rows: every number of the report is worked out here, once."""
