"""One section of the report per module: the result of an analysis in, a Section out; nothing is computed here."""
