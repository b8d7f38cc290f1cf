package gpfs

import "time"

// Options say how a site's Storage Scale is asked. The zero Options ask the mm commands.
type Options struct {
	// URL is that of the GUI, "https://gui.site:443"; "" asks the mm commands instead.
	URL string
	// FileSystem is what the cluster that owns the file system calls it; "" is the name of
	// its device here.
	FileSystem string
	// CredentialsFile has lines SCALE_USER=... and SCALE_PASSWORD=...; only its owner may
	// read it. It is read again for each call, so that a password can be changed.
	CredentialsFile string
	// CABundle is a file of PEM certificates that the GUI's one is checked against; ""
	// means those of the system.
	CABundle string
	// CommandsDir is where the mm commands are; "" means /usr/lpp/mmfs/bin. It may be a
	// directory of wrappers of the same names.
	CommandsDir string
}

const (
	// callTimeout is for one call or command. A policy scan and a job of the GUI have as long
	// as the caller's context.
	callTimeout        = time.Minute
	defaultCommandsDir = "/usr/lpp/mmfs/bin"
)
