package osaccount

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"datamove.dev/test/must"
)

// TestOwnOnly: a connection of another account is closed without a word, one of ours is
// not, whichever kind of socket it comes from.
func TestOwnOnly(t *testing.T) {
	plain, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
	l := OwnOnly{plain}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("welcome"))
			_ = conn.Close()
		}
	}()
	_, port, err := net.SplitHostPort(plain.Addr().String())
	must.Do(t, err)
	hear := func(address string, as *syscall.Credential) string {
		t.Helper()
		cmd := exec.Command("bash", "-c", "exec 3<>/dev/tcp/"+address+"/"+port+" && cat <&3")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		out, err := cmd.Output()
		if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, address := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1"} {
		if got := hear(address, nil); got != "welcome" {
			t.Errorf("at %s we hear %q", address, got)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: to be somebody else")
	}
	if got := hear("127.0.0.1", &syscall.Credential{Uid: 12345, Gid: 12345}); got != "" {
		t.Errorf("somebody else hears %q", got)
	}
	bare, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
	defer bare.Close()
	_, port, err = net.SplitHostPort(bare.Addr().String())
	must.Do(t, err)
	gone := exec.Command("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+port) // and ends at once
	gone.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	must.Do(t, gone.Run())
	conn, err := bare.Accept()
	must.Do(t, err)
	defer conn.Close()
	if uid, known := peerUID(conn); known {
		t.Errorf("who has gone is uid %d", uid)
	}
}
