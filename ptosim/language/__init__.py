"""Text to a resolved and placed program: syntax, names and types, rules, memory, rewriting."""
