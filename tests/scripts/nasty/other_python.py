import subprocess
import sys

subprocess.run([sys.executable, *sys.argv[1:]], check=True)
