"""What rides in somebody's script. Standard library and torch only: the script's interpreter may have nothing else."""
