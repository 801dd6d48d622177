"""From quantised computations to PTO programs: text that is written, loaded, run and compared.

`chains` has the operation sequences, fast and exact, `kernels` whole functions around them,
`cube_kernels` the matrix product with its output path; `kernel_runner` runs them on arrays. On top
are ONNX graphs (`onnx_run`), oneDNN attributes (`plan`), formats compared (`explore`), and `quant`
operations inside PTO programs (`quant_dialect`)."""
