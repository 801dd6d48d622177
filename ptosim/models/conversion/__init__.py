"""Float models quantised: `ptosim quant convert MODEL --calibration data.npz`."""
