"""The language server: what an editor asks about a program, answered from the checked module.

`document` reads and checks a text; `names` says what each name in it is; the other modules answer
one kind of question each, in character offsets; `requests` and `server` speak the protocol.
"""
