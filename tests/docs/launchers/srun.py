"""srun of a job of two tasks on this machine: runs its command once a task, with Slurm's variables."""

from __future__ import annotations

import os
import subprocess
import sys

TASKS = 2

slurm = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_NTASKS": str(TASKS), "SLURM_TASKS_PER_NODE": str(TASKS)}
tasks = [
    subprocess.Popen(sys.argv[1:], env={**os.environ, **slurm, "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)})
    for task in range(TASKS)
]
sys.exit(max(task.wait() for task in tasks))
