"""What all rooms share: files, command lines, names, optional packages, compilation."""
