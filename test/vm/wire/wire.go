// Package wire is what the host and the init program of a guest say to each other:
// a Job, which lies in the guest's first file system as JSON, and Events, one JSON
// value a line, which come back through a virtio port.
package wire

import "time"

const (
	// JobFile is where the guest finds its Job.
	JobFile = "/job.json"
	// Port is the name of the virtio port that takes the events.
	Port = "org.datamove.events"
	// ChunkBytes is the most output that one event carries.
	ChunkBytes = 32 << 10
)

// Job is all that a guest does between its boot and its end.
type Job struct {
	Modules  []Module
	Mounts   []Mount
	Env      []string // of every command
	Commands []Command
}

// Module is a file to load into the kernel.
type Module struct {
	Path string
	Soft bool // what needs it works without it, only slower or not in every case
}

// Mount is done before the first command, in order. The target is made, and a source
// below /dev is waited for.
type Mount struct {
	Source, Target, Type, Options string
	Bind                          bool
}

// Command is one process, and what it leaves behind when it ends is killed.
type Command struct {
	Args    []string // a path, and arguments
	Env     []string // added to that of the job
	Dir     string
	Timeout time.Duration // 0 is none: the host has one for all
	// Optional lets the next commands run when this one fails; otherwise it is the last.
	Optional bool
}

// Event is something that happened in the guest. Exactly one of its parts is set.
type Event struct {
	Output *Output `json:",omitempty"`
	Exit   *Exit   `json:",omitempty"`
	Failed string  `json:",omitempty"` // why the guest could not go on to its commands
	Done   bool    `json:",omitempty"` // nothing more comes
}

// Output is what a command wrote to its standard output or error.
type Output struct {
	Command int
	Error   bool
	Text    []byte
}

// Exit is the end of a command.
type Exit struct {
	Command int
	Code    int    // -1 when a signal ended it, or it was not started
	Reason  string // empty with Code 0
}
