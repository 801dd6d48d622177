"""What operations do to memory and registers: which bytes they read, write, may write.

One account for all who ask: sanitizers, automatic synchronisation, lifetimes, the memory map, the
debugger, the order of data in time."""
