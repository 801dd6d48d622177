"""Quantisation systems on one table: ONNX, MLIR `quant`, oneDNN, PyTorch, and what PTO hardware
does.

`engine` executes the schemes of `isa/quant/schemes.toml` on arrays; `onnx_*`, `mlir_*` and
`onednn_*` are the operators and rules of the three systems on top of it; `diff`, `explore` and
`plan` compare them and connect them with PTO programs.
"""
