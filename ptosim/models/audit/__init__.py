"""What a program or a model quantises, by which formula, and where other systems differ."""
