"""What each operation computes: one function an operation, grouped by family."""
