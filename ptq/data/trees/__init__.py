"""Trees of files that are not in a folder of this machine: objects under a URL, and members of tar shards.

tree: `FileTree`: names, sizes and contents
url_tree: objects under a URL, or that match a pattern
tar_tree: members of tar shards as files
tar_samples: which members of a shard make a sample, grouped by key as WebDataset writes them
tar_labels: labels of the samples of shards
tar_index: where the members of a tar file are
readers: threads that read files ahead
fetched_folder: a tree as a folder of samples; each file is fetched when it is read
"""
