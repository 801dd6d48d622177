"""What reports look like: tables, pages, charts."""
