"""Gates: rules that a report has to keep, and what CI systems read of them."""
