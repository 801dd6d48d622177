"""Support for editors: a VS Code extension, Vim files, and what makes their grammars."""
