package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"datamove.dev/mover"
)

// start starts what starts the nodes. When that ends before its time, the run does; wait waits for it, and after a while no longer.
func (f *runFlags) start(ctx context.Context, say io.Writer, fail context.CancelCauseFunc) (wait func()) {
	ended := make(chan struct{})
	f.plan.Ended = ended
	args, err := f.launched()
	if err != nil {
		fail(err)
		return func() {}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), joinVariable+"="+string(f.plan.Secret))
	cmd.Stdout, cmd.Stderr = say, say
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = farewell
	go func() {
		defer close(ended)
		if err := cmd.Run(); err != nil && ctx.Err() == nil {
			fail(fmt.Errorf("%w: --launch: %s: %w", mover.ErrUnreachable, args[0], err))
		}
	}()
	return func() {
		select {
		case <-ended:
		case <-time.After(farewell): // srun waits for a node that is lost
			fail(nil)
			<-ended
		}
	}
}

// farewell is how long those that were started have to end.
const farewell = 10 * time.Second

// launched is the command that starts all nodes.
func (f *runFlags) launched() ([]string, error) {
	words := strings.Fields(f.launch)
	if len(words) == 0 {
		return nil, usageError{errors.New("--launch: want the words of a command")}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(f.plan.Listen.Addr().String())
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); (err != nil || ip.IsUnspecified()) && f.address == "" { // every address of this host
		if host, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	return append(words, self, "join", cmp.Or(f.address, net.JoinHostPort(host, port))), nil
}
