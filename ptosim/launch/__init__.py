"""A program with its arguments: launches, chains, independent blocks, costs, analyses."""
