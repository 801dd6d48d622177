"""What the assembler does for a program that leaves it open: addresses and synchronisation, written
back into its text."""
