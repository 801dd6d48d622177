"""Models as exporters write them become models of static shapes and operators with kernels."""
