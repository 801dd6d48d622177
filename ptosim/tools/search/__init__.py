"""Many programs instead of one: spaces of parameters, every point of them (`sweep`), candidates of
others (`judge`), and the engines that they run on."""
