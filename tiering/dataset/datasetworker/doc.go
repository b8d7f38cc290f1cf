// Package datasetworker is the worker's side of the tasks of datasets: a source is described, a replica staged, released
// or purged, and it is asked whether an account may read one.
//
// The coordinator decides from recorded state; a Runner of this package checks the storage before it acts. A replica is
// released only while the copy that stays is there and the same, and staged only when what is read again is
// what its manifest lists. Paths of replicas are strict: no symbolic link leads to them. It keeps no state.
// TestStrict shows these paths; test/cluster and test/system/service show datasets at work.
package datasetworker
