"""The debugger: one core that moves a run forwards and backwards, and its clients."""
