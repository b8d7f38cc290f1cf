#!/bin/sh
# A training that runs as it is on premises and in AWS: train.sh COMMAND [ARG...] gives COMMAND its data, a place for checkpoints, and the one to go on from.
#SBATCH --job-name=run1 --nodes=1 --exclusive --requeue --signal=B:TERM@120
#DATAMOVE stage-in=project:imagenet to=scratch:imagenet required
#DATAMOVE checkpoint=scratch:ckpt to=project:run1 profile=dcp
set -eu

# Where Slurm's burst buffer is it has told all this, and brings checkpoints away. Elsewhere the lines above are read here, and a watch does; with WATCHED=1 another one.
watched=${WATCHED:-${DATAMOVE_CHECKPOINT:-}}
environment=$(datamove hook environment "$0")
eval "$environment"

# 3: there is none, and the run begins.
newest=$(datamove checkpoint latest --verified --profile dcp --fetch-to "$DATAMOVE_CHECKPOINT" project:run1 cloud:run1) || [ $? = 3 ]

watch=
if [ -z "$watched" ]; then
    datamove checkpoint watch --profile dcp --grace 100s --to project:run1 --to cloud:run1 "$DATAMOVE_CHECKPOINT" &
    watch=$!
fi

"$@" --data "$DATAMOVE_IN_IMAGENET" --save "$DATAMOVE_CHECKPOINT" --resume "$newest" &
training=$!
trap 'kill -TERM $training' TERM INT
code=0
wait $training || code=$?
while kill -0 $training 2>/dev/null; do wait $training || code=$?; done # a signal ends the first wait

# The training has saved what it could. Now the newest comes home; what does not within the watch's grace has what time there still is.
if [ -n "$watch" ]; then
    kill -TERM $watch
    wait $watch || datamove checkpoint watch --once --settle 1s --profile dcp --to project:run1 --to cloud:run1 "$DATAMOVE_CHECKPOINT" || code=$?
fi
exit $code
