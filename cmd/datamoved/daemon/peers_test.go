package daemon

import (
	"log/slog"
	"net"
	"testing"

	"datamove.dev/mover/config"
	"datamove.dev/mover/server/pki"
	"datamove.dev/test/must"
)

// TestAddressTo: peers are given things on the address from which the coordinator is reached, and on no other one.
func TestAddressTo(t *testing.T) {
	for target, want := range map[string]string{"127.0.0.1:7643": "127.0.0.1", "": "", "nonsense": ""} {
		if got := addressTo(target); got != want {
			t.Errorf("towards %q from %q, want %q", target, got, want)
		}
	}
}

// TestPeersListen: the port for other nodes is open on the address from which the coordinator is reached, and on others only where the configuration says so.
func TestPeersListen(t *testing.T) {
	for _, row := range []struct {
		what   string
		peers  config.Peers
		target string
		want   string // "" is no port
	}{
		{"nothing is said", config.Peers{}, "127.0.0.1:7643", "127.0.0.1"},
		{"a name is said", config.Peers{Host: "n17.site"}, "127.0.0.1:7643", "all"},
		{"an address is said", config.Peers{Listen: "127.0.0.2:0"}, "127.0.0.1:7643", "127.0.0.2"},
		{"both are", config.Peers{Listen: "127.0.0.2:0", Host: "n17.site"}, "127.0.0.1:7643", "127.0.0.2"},
		{"it is off", config.Peers{Listen: config.PeersOff}, "127.0.0.1:7643", ""},
	} {
		t.Run(row.what, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			h := &host{log: log, live: must.Get(newLive(&config.Config{Peers: row.peers}, nil, log))(t)}
			keeper := must.Get(pki.OpenStore(t.TempDir(), pki.Identity{Role: pki.Agent, Name: "n17"}, pki.StoreOptions{}))(t)
			p := must.Get(h.peers(keeper, row.target))(t)
			got := ""
			if p != nil {
				t.Cleanup(func() { must.Do(t, p.listener.Close()) })
				ip := p.listener.Addr().(*net.TCPAddr).IP
				if got = ip.String(); ip.IsUnspecified() { // of IPv4 alone, or of both
					got = "all"
				}
			}
			if got != row.want {
				t.Errorf("it is open on %q, want %q", got, row.want)
			}
		})
	}
}
