package server

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"

	"datamove.dev/mover"
)

// Activated returns the sockets that systemd has opened for this process (LISTEN_FDS),
// and takes the variables that say so out of the environment. To be called once.
func Activated() ([]net.Listener, error) {
	var all []net.Listener
	for _, f := range activation.Files(true) {
		l, err := net.FileListener(f)
		_ = f.Close() // the listener has its own
		if err != nil {
			return nil, &mover.Error{Op: "take over the socket", Location: f.Name(), Err: fmt.Errorf("%w: %w", mover.ErrUsage, err)}
		}
		if u, is := l.(*net.UnixListener); is {
			u.SetUnlinkOnClose(false) // it is systemd's
		}
		all = append(all, l)
	}
	return all, nil
}

// addressOf is where a listener listens, as it stands in a configuration.
func addressOf(l net.Listener) string {
	return l.Addr().Network() + "://" + l.Addr().String()
}
