"""Execution of the level of logical vectors (`pto.vmi.*`): one array operation for each vector,
whatever registers it would take."""
