def configure(parser): pass
def run(options, terminal): return 0
