"""Quantisation systems on one table: ONNX, MLIR `quant`, oneDNN, PyTorch, and what PTO hardware
does.

`quantize` and `inverse` execute the schemes of `isa/quant/schemes.toml` on arrays; `onnx`, `mlir`
and `onednn` are the operators and rules of the three systems on top of them; `diff` compares
schemes.
"""
