"""The commands of this project: `habnn COMMAND ...` after an installation, scripts/COMMAND.py in a checkout."""
