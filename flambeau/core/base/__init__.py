"""What everything stands on: settings, memory, dtypes, the tensor, the thread pool, the seam to devices."""
