"""The commands of the debugger, by what they are for; importing a module registers its commands."""
