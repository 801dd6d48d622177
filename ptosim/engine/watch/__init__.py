"""Looks on while a program runs and reports what the hardware would punish without a word: data
races between pipes and cores, reads of bytes that nothing wrote, overwritten live tiles, flags that
are left over."""
