"""From ranges of values to scales: calibration methods and the choice of parameters."""
