"""The debugger as a full screen; needs `ptosim[tui]`."""
