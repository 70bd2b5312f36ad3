"""How the measures of a program moved over many saved reports."""
