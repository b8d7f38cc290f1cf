package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

func init() { children["idle"] = idle }

// idle connects as often as it is told, says hello, says what became of that, and waits
// until its stdin ends.
func idle() {
	n, _ := strconv.Atoi(os.Args[2])
	conns := make([]net.Conn, 0, n)
	for range n {
		conn, err := net.Dial("unix", os.Args[1])
		for errors.Is(err, syscall.EAGAIN) { // faster than the server takes them
			runtime.Gosched()
			conn, err = net.Dial("unix", os.Args[1])
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		conns = append(conns, conn)
		_, err = io.WriteString(conn, http2.ClientPreface)
		if err == nil {
			_ = http2.NewFramer(conn, nil).WriteSettings() // a connection that is refused is counted by the server
		}
	}
	for _, conn := range conns {
		_, _ = io.ReadFull(conn, make([]byte, 9)) // the server's hello, or its refusal
	}
	fmt.Println("there are", len(conns))
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(conns) // else they are closed when nobody looks at them any more
}

// crowdOf starts a process of another user with so many connections, until the test is over.
func (r *rig) crowdOf(n int, uid uint32) {
	r.t.Helper()
	path := strings.TrimPrefix(r.socket, "unix://")
	if err := os.Chmod(filepath.Dir(filepath.Dir(path)), 0o711); err != nil { // the other user has to get through
		r.t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", path, strconv.Itoa(n))
	cmd.Env = []string{"DOOR_CHILD=idle"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	hold, err := cmd.StdinPipe()
	must.Do(r.t, err)
	said, err := cmd.StdoutPipe()
	must.Do(r.t, err)
	must.Do(r.t, cmd.Start())
	r.t.Cleanup(func() {
		_ = hold.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || line != fmt.Sprintf("there are %d\n", n) {
		r.t.Fatalf("the crowd says %q, %v", line, err)
	}
}

// needs skips the test where it can not be had.
func needs(t *testing.T, files int) {
	t.Helper()
	var limit unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur < uint64(files)+200 {
		limit.Cur, limit.Max = uint64(files)+200, max(limit.Max, uint64(files)+200)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Skipf("%d open files can not be had: %v", files, err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("to call as two users takes root")
	}
}

const foreignUID = 23456

// One user's 10,000 connections are some of them, and no other user minds.
//
//safety:8 10,000 connections of one user, of which 256 are taken; callers, open calls and calls per second
func TestIdleConnections(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 2_000
	}
	needs(t, n)
	t.Run("of one user", func(t *testing.T) {
		r := newRig(t)
		r.crowdOf(n, foreignUID)
		eventually(t, "as many as one may have", func() bool { return r.locals.size() == 256 })
		if _, err := info(r.dial(nil)); err != nil {
			t.Errorf("another user: %v", err)
		}
		r.crowdOf(1, foreignUID+1)
		eventually(t, "a third user's", func() bool { return r.locals.size() >= 258 })
	})
	t.Run("of many, who fill the house", func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Limits.Connections = 300 })
		r.crowdOf(300, foreignUID)
		r.crowdOf(300, foreignUID+1)
		eventually(t, "as many as all may have", func() bool { return r.locals.size() == 300 })
		if _, err := info(r.dial(nil)); err != nil {
			t.Errorf("root: %v", err)
		}
	})
	t.Run("that may all stay", func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Limits.Connections, o.Limits.EachPeer = n, n })
		before := memory()
		r.crowdOf(n, foreignUID)
		eventually(t, "all of them", func() bool { return r.locals.size() == n })
		if _, err := info(r.dial(nil)); err != nil {
			t.Errorf("another user: %v", err)
		}
		each := int64(memory()-before) / int64(n)
		t.Logf("%d bytes for each connection", each)
		if each > 64<<10 {
			t.Errorf("each connection takes %d bytes", each)
		}
	})
}

// memory is what is in use.
func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
