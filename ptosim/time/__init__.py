"""Time: what operations cost, and when pipes execute them. Nothing here sees a value."""
