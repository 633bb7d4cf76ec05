"""Products with sparse rows."""
