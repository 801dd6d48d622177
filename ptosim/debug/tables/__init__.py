"""Tables of the debugger, by what they show."""
