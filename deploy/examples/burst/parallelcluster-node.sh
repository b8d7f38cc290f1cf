#!/bin/bash
# On each compute node of ParallelCluster, before it takes jobs (OnNodeConfigured): parallelcluster-node.sh S3-PREFIX
set -euo pipefail
from=$1

aws s3 cp --only-show-errors "$from/datamove" /usr/local/bin/datamove
chmod 0755 /usr/local/bin/datamove
install -d -m 0755 /etc/datamove
aws s3 cp --only-show-errors "$from/config.yaml" /etc/datamove/config.yaml
chmod 0644 /etc/datamove/config.yaml

# Jobs of all users have their directories there. The head node has no such disk.
if mountpoint -q /local_nvme; then
    chmod 1777 /local_nvme
fi
datamove version
