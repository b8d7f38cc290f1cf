// Package registrar tells the kubelet that the driver is there, as its node-driver-registrar would: it answers on a socket
// in the kubelet's directory of plugins (k8s.io/kubelet/pkg/apis/pluginregistration/v1), which
// the kubelet finds by looking. When the kubelet refuses the driver, the reason is an error of Serve.
package registrar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"datamove.dev/mover"
)

// Registrar is one driver on one node.
type Registrar struct {
	registration.UnimplementedRegistrationServer

	Name     string // of the driver
	Dir      string // where the kubelet looks: plugins_registry below its root
	Endpoint string // the driver's socket, as the kubelet sees it

	refused chan error
}

// Serve answers until ctx is over.
func (r *Registrar) Serve(ctx context.Context) error {
	r.refused = make(chan error, 1)
	path := filepath.Join(r.Dir, r.Name+"-reg.sock")
	listener, err := Listen(path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case <-ctx.Done():
		err = nil
	case err = <-r.refused:
	case err := <-ended:
		return err
	}
	server.Stop()
	return errors.Join(err, <-ended)
}

// Listen makes a socket that only its owner can connect to. One that is left of an earlier process is replaced.
func Listen(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("%w: %s is there, and is no socket", mover.ErrConflict, mover.Printable(path))
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return (&net.ListenConfig{Control: ownersOnly}).Listen(context.Background(), "unix", path)
}

// ownersOnly gives the socket the mode that its file is made with (unix_bind in net/unix/af_unix.c), so that
// other users have no access to it at any time.
func ownersOnly(_, _ string, socket syscall.RawConn) error {
	var refused error
	err := socket.Control(func(fd uintptr) { refused = syscall.Fchmod(int(fd), 0o600) })
	return errors.Join(err, refused)
}

// GetInfo returns the name and the socket of the driver.
func (r *Registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.Name, Endpoint: r.Endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus hears what the kubelet made of it.
func (r *Registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !s.GetPluginRegistered() {
		select {
		case r.refused <- fmt.Errorf("the kubelet does not take the driver: %s", mover.Printable(s.GetError())):
		default:
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}
