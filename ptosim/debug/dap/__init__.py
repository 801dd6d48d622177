"""The Debug Adapter Protocol over standard input and output: the debugger in an editor."""
