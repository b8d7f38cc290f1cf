"""Checkpoints of a training script, and datamove.

    watcher = watch("/local_nvme/run1", "/lustre/project/run1", "s3://archive/run1")
    start = latest("/local_nvme/run1", "/lustre/project/run1", "s3://archive/run1")
    for step in range(start_step(start), steps):
        ...
        save(model, f"/local_nvme/run1/step_{step}")   # each rank its part
        torch.distributed.barrier()                    # all have written
        if torch.distributed.get_rank() == 0:
            commit(f"/local_nvme/run1/step_{step}")
    finish(watcher, "/local_nvme/run1", "/lustre/project/run1", "s3://archive/run1")

It needs nothing but Python 3.8 and datamove in PATH. Run it, and it shows itself with a model of a few bytes.
"""

import os
import signal
import subprocess
import sys
import tempfile

NOT_FOUND = 3  # the exit code of datamove for what is not there


def commit(path, *tags):
    """Say that a checkpoint is complete: one rank, once all have written. It returns when what is in it is on stable storage."""
    subprocess.run(["datamove", "checkpoint", "commit", *("--tag=" + t for t in tags), "--", path], check=True, stdout=subprocess.DEVNULL)


def latest(directory, *places):
    """Bring the newest verified checkpoint of the places to a directory. Return where it is; None is a run that begins."""
    run = subprocess.run(["datamove", "checkpoint", "latest", "--verified", "--fetch-to", directory, "--", *places], stdout=subprocess.PIPE, text=True)
    if run.returncode == NOT_FOUND:
        return None
    run.check_returncode()
    return run.stdout.rstrip("\n")


def watch(directory, *targets):
    """Bring checkpoints away while this goes on."""
    os.makedirs(directory, exist_ok=True)
    return subprocess.Popen(["datamove", "checkpoint", "watch", *("--to=" + t for t in targets), "--", directory], stdout=subprocess.DEVNULL)


def finish(watcher, directory, *targets):
    """Wait until all that is complete is verified at all targets. What could not be brought is an error."""
    watcher.send_signal(signal.SIGTERM)
    watcher.wait()
    subprocess.run(["datamove", "checkpoint", "watch", "--once", "--settle=0.1s", *("--to=" + t for t in targets), "--", directory], check=True, stdout=subprocess.DEVNULL)


def demo(top):
    nvme, pfs, far = (os.path.join(top, d) for d in ("nvme", "pfs", "far"))
    for d in (pfs, far):
        os.makedirs(d)
    start = latest(nvme, pfs, far)
    print("begins with", start)
    watcher = watch(nvme, pfs, far)
    for step in (100, 200):
        path = os.path.join(nvme, f"step_{step}")
        os.makedirs(path)
        for rank in range(2):
            with open(os.path.join(path, f"rank_{rank}.bin"), "wb") as f:
                f.write(f"weights {step} of {rank}\n".encode() * 1000)
        commit(path)
    os.makedirs(os.path.join(nvme, "step_300"))  # and here the job dies
    finish(watcher, nvme, pfs, far)
    print("goes on with", os.path.relpath(latest(os.path.join(top, "other"), pfs, far), top))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        demo(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as top:
            demo(top)
