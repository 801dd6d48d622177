"""The level of logical vectors: operations against a lane-by-lane model, rules, programs."""
