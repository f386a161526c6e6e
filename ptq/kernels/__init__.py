"""Integer arithmetic on arrays: no graph, no files, no runtime; channels last, weights O·kh·kw·I."""
