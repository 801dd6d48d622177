"""Quantisation systems of others on one table: the operators and rules of ONNX and oneDNN, formulas
compared (`diff`), real and fixed-point values (`scaled`)."""
