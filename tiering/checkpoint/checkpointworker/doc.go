// Package checkpointworker is the worker's side of checkpoints: which ones are in a tier is told to the coordinator again and again ([Scan]), and
// the ones that a rule of retention does not keep are removed ([Retain]).
//
// Which checkpoints are complete and which stay is decided by tiering/checkpoint, and tiering/checkpoint/replicate does what
// is decided. A scan keeps what it has told in memory; after a restart it tells everything once. Checkpoints of a policy are moved by
// tiering/policy/policyworker. TestRetain shows which ones go, the script checkpoints.txt of
// test/script/service both at work.
package checkpointworker
