// Package csi is the driver csi.datamove.dev: it gives pods directories of parallel file systems, scratch of their node
// and staged datasets, by the Container Storage Interface 1.13.
//
// Its words are those of the interface. A [Driver] has the identity, the controller and the node service,
// of which its [Mode] says which are served; a [Config] says which file systems there are.
//
// What a volume is lies in the volume (package volumestore). A driver that is killed and started again, or asked
// twice, or by two, finds what was done. Nothing that may hang is done in this process (packages fsclient and fsworker),
// and no call waits for another one. A call for what is under way gets Aborted, and its caller asks again.
//
// The author of a PersistentVolume may be another user than the one of the pod. Directories and datasets that were there
// before are given to a pod only if a grant of the configuration says so. A volume is given only to pods of the namespace that it
// was made for.
package csi
