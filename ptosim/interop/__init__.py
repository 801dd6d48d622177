"""From quantised computations to PTO programs: text that is written, loaded, run and compared.

`chains` has the operation sequences, fast and exact, `kernels` whole functions around them, `cube`
the matrix product with its output path; `runner` runs them on arrays and `model`, `plan` and
`casts` are the features on top: ONNX graphs, oneDNN attributes, and `quant` operations inside PTO
programs."""
