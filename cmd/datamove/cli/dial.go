package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"datamove.dev/api"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/remedy"
)

// NoService is the address that means this process.
const NoService = "none"

// address is --service. Given and empty it means something: this process.
type address struct {
	set  bool
	text string
}

func (f *address) String() string { return f.text }
func (f *address) Type() string   { return "address" }

func (f *address) Set(s string) error {
	f.set, f.text = true, s
	return nil
}

// Service returns the address of the service that does the work: that of --service,
// of the environment, or of the configuration. "" is this process.
func (a *App) Service() (string, error) {
	address := a.serviceFlag.text
	if !a.serviceFlag.set {
		if address = a.Env("DATAMOVE_SERVICE"); address == "" {
			conf, err := a.Config()
			if err != nil {
				return "", err
			}
			address = conf.Service
		}
	}
	if address == NoService {
		address = ""
	}
	return address, nil
}

// DefaultAddress is where a service of this machine is without a configuration: that of
// root, or else our own.
func (a *App) DefaultAddress() string {
	if run := a.Env("XDG_RUNTIME_DIR"); filepath.IsAbs(run) && !exists(strings.TrimPrefix(config.DefaultListen, "unix://")) {
		if own := filepath.Join(run, "datamove", "datamoved.sock"); exists(own) {
			return "unix://" + own
		}
	}
	return config.DefaultListen
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Client connects to the service, for commands that are nothing without one. They
// find it on its own machine without being told where.
func (a *App) Client(ctx context.Context) (*api.Client, error) {
	address, err := a.Service()
	if err != nil {
		return nil, err
	}
	if address == "" && a.serviceFlag.set {
		return nil, Advise(mover.Misusef("this asks a service, and --service says that there is none"), "the command without --service")
	}
	if address == "" {
		return a.Dial(ctx, a.DefaultAddress(), nameService)
	}
	return a.Dial(ctx, address, remedy.For(remedy.Case{Kind: mover.ErrUnreachable, Backend: remedy.Service}))
}

// nameService is what helps where no service is configured, and none runs here.
const nameService = "--service ADDRESS, DATAMOVE_SERVICE or service: in the configuration, which name one that runs elsewhere; docs/guides/service.md says how one begins here"

// Dial connects to the service at an address. If there is no service, try is the remedy.
func (a *App) Dial(ctx context.Context, address, try string) (*api.Client, error) {
	var o api.Options
	if IsRemote(address) {
		var err error
		if o.TLS, err = a.Identity(); err != nil {
			return nil, err
		}
	}
	c, err := api.Dial(ctx, address, o)
	if err != nil {
		return nil, a.adviseDial(err, address, try)
	}
	return c, nil
}

// IsRemote reports whether an address is that of another machine, as far as can be seen.
func IsRemote(address string) bool { return strings.HasPrefix(address, "tcp://") }

// newIdentity is the remedy for a certificate that a service refuses.
const newIdentity = "a new certificate (datamove service identity, by the operator of the service)"

// adviseDial says what to do about a service that can not be called.
func (a *App) adviseDial(err error, address, try string) error {
	var own interface{ Advice() string }
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, mover.ErrPermission) && IsRemote(address):
		try = newIdentity + " in " + a.identityFile()
		if at := datesOf(a.identityFile()); errors.Is(err, mover.ErrUnreachable) && at != "" { // the service does not take it
			err, try = fmt.Errorf("%w; %s", err, at), try+", or the right time here and on the service: timedatectl"
		}
	case errors.Is(err, mover.ErrPermission):
		try = "as a member of the group that may use the socket"
	case errors.Is(err, mover.ErrUsage):
		try = "--service " + config.DefaultListen
		host := address[strings.LastIndexByte(address, '/')+1:]
		if _, port, err := net.SplitHostPort(host); err == nil && port != "" && !strings.HasPrefix(address, "unix:") {
			try = "--service tcp://" + mover.Printable(host)
		}
	}
	return Advise(err, try)
}

// AskService does a command that asks the service. things is the command that lists what it
// asks for.
func (a *App) AskService(ctx context.Context, things string, body func(*api.Client) error) error {
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // what was asked has been answered
	return AdviseAsked(body(c), things)
}

// AdviseAsked says what to do about an answer of the service, for which the advice of
// a copy would be wrong.
func AdviseAsked(err error, things string) error {
	var already *advised
	var end *EndedError
	switch {
	case errors.As(err, &already), errors.As(err, &end):
		return err
	case errors.Is(err, mover.ErrNotExist):
		return Advise(err, things)
	case errors.Is(err, mover.ErrPermission) && errors.Is(err, mover.ErrUnreachable):
		return Advise(err, newIdentity)
	}
	for _, kind := range []error{mover.ErrPermission, mover.ErrUnreachable, mover.ErrTimeout} {
		if errors.Is(err, kind) {
			return Advise(err, remedy.For(remedy.Case{Kind: kind, Backend: remedy.Service}))
		}
	}
	return err
}

// The commands that list what others ask for.
const (
	TaskList    = "datamove task list --all"
	DatasetList = "datamove dataset list"
	TierList    = "datamove tier list"
	AgentList   = "datamove agent list"
	LeaseList   = "datamove lease list"
)
