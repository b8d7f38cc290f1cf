package daemon

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/pki"
)

// paths is where this process lives.
type paths struct {
	data   string
	listen []string
	page   string // host:port of metrics and the page; "" is none
	scrape string // host:port of metrics for the network; "" is none
	node   string
}

// place finds out where: flags before the configuration before what is usual.
func (a *app) place(c *config.Config) (p paths, err error) {
	if p, err = a.home(c); err == nil {
		p.listen, err = a.addresses(c)
	}
	return p, err
}

// home is place without the addresses, which only a server or a caller needs.
func (a *app) home(c *config.Config) (p paths, err error) {
	if p.data, err = a.dataDir(c); err != nil {
		return p, err
	}
	p.page, p.scrape = c.Metrics, c.Scrape
	if p.node = cmp.Or(a.flags.node, c.Node); p.node == "" {
		if p.node, err = os.Hostname(); err != nil {
			return p, err
		}
	}
	if !pki.ValidName(p.node) {
		return p, mover.Misusef("the name of this node is %s; want letters, digits and . _ - : --node, or node in the configuration", mover.Printable(p.node))
	}
	return p, nil
}

func (a *app) dataDir(c *config.Config) (string, error) {
	switch {
	case a.flags.data != "":
		return filepath.Abs(a.flags.data)
	case c.Data != "":
		return c.Data, nil
	case filepath.IsAbs(a.env("STATE_DIRECTORY")): // systemd says so, for StateDirectory=
		return a.env("STATE_DIRECTORY"), nil
	case os.Geteuid() == 0:
		return config.DefaultData, nil
	}
	dir, err := mover.StateDir(a.env)
	if err != nil {
		return "", fmt.Errorf("%w, or say where the state is to be, with --data DIR", err)
	}
	return filepath.Join(dir, "service"), nil
}

func (a *app) addresses(c *config.Config) ([]string, error) {
	switch {
	case len(a.flags.listen) > 0:
		return a.flags.listen, nil
	case len(c.Listen) > 0:
		return c.Listen, nil
	case filepath.IsAbs(a.env("RUNTIME_DIRECTORY")): // systemd, for RuntimeDirectory=
		return []string{"unix://" + filepath.Join(a.env("RUNTIME_DIRECTORY"), "datamoved.sock")}, nil
	case os.Geteuid() == 0:
		return []string{config.DefaultListen}, nil
	case filepath.IsAbs(a.env("XDG_RUNTIME_DIR")):
		return []string{"unix://" + filepath.Join(a.env("XDG_RUNTIME_DIR"), "datamove", "datamoved.sock")}, nil
	}
	return nil, mover.Misusef("there is no $XDG_RUNTIME_DIR: say where to listen, with --listen unix:///path")
}
