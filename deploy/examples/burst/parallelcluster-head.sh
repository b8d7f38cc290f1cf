#!/bin/bash
# On the head node of ParallelCluster (OnNodeConfigured): parallelcluster-head.sh S3-PREFIX
# /opt/slurm is that of all nodes. ParallelCluster keeps Prolog= and Epilog= for itself, and runs what is in these folders (version 3.6 and later). With these hooks
# a job has a directory on the disks of its node, which goes with the job. There is no datamoved here, so nothing is staged while a job is pending: what its script
# asks for "datamove hook environment" tells it there.
set -euo pipefail
from=$1
scripts=/opt/slurm/etc/scripts

/bin/bash <(aws s3 cp --only-show-errors "$from/parallelcluster-node.sh" -) "$from"
aws s3 cp --only-show-errors "$from/prolog" "$scripts/prolog.d/50_datamove"
aws s3 cp --only-show-errors "$from/epilog" "$scripts/epilog.d/50_datamove"
aws s3 cp --only-show-errors "$from/task-prolog" "$scripts/datamove-task-prolog"
chmod 0755 "$scripts/prolog.d/50_datamove" "$scripts/epilog.d/50_datamove" "$scripts/datamove-task-prolog"

# Of a file system that has imported the names of a bucket the contents come before a job waits for one.
datamove stage --in-place project:imagenet
