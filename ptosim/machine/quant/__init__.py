"""What quantised values mean: the schemes of `isa/quant/schemes.toml` on arrays (`quantize`,
`inverse`), and the `quant` dialect of MLIR, whose types and operations stand in PTO programs."""
