"""From rows to sentences and tables of text: each section is a list of blocks, made from rows alone."""
