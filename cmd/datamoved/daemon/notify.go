package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// manager is systemd, or another service manager that listens on NOTIFY_SOCKET.
// Without one, nothing is sent.
type manager struct{ log *slog.Logger }

func (m manager) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.log.Warn("the service manager can not be told", "err", err)
	}
}

func (m manager) status(format string, args ...any) {
	m.tell("STATUS=" + fmt.Sprintf(format, args...))
}

func (m manager) ready(status string) { m.tell(daemon.SdNotifyReady + "\nSTATUS=" + status) }

// reloading says so, with the time that Type=notify-reload wants to know.
func (m manager) reloading() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it is there on every Linux
	m.tell(fmt.Sprintf("%s\nMONOTONIC_USEC=%d\nSTATUS=reading the configuration", daemon.SdNotifyReloading, now.Nano()/1000))
}

func (m manager) stopping() { m.tell(daemon.SdNotifyStopping + "\nSTATUS=putting work back") }

// watched tells the manager that we live, for as long as alive says so, twice as often
// as it wants to hear it (WatchdogSec=).
func (m manager) watched(ctx context.Context, alive func(context.Context) error) error {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		<-ctx.Done()
		return err
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		if err := alive(ctx); err == nil {
			m.tell(daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			m.log.Error("the service does not answer itself", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
