"""All paths of an entry: which runs are made, what they show, and what they leave open."""
