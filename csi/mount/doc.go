// Package mount is what the driver asks the kernel for: a directory that is open is mounted
// at a target, a file system of the configuration is mounted, and both are taken away again.
//
// Its words: a source is a descriptor, and never a path, so nothing can be exchanged between
// the check of a directory and its mount. A target is a path of the kubelet's; its last part is
// made and opened without following a link. A [Mount] is one line of the table of mounts.
//
// Everything here may hang together with a file system, so it runs in a process that can be
// killed (package fsworker). A call that is killed in its middle leaves a mount that is what it
// should be, or none. The flags of a mount are set before it is attached, where the kernel can do that
// (Linux 5.12). Calls for one target are the caller's to order; what they find done, they leave.
//
// It knows nothing of volumes.
package mount
