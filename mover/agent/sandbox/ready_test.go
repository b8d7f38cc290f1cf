package sandbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// A process that waits is as closed to others as one that works, and gets what it is told
// in the end.
//
//safety:7 a process that waits for the next task of its account: neighbours can not look into it, it gets the roots of its task and no others, and it may be killed
func TestReady(t *testing.T) {
	needRoot(t)
	needLandlock(t)
	dir, other := folder(t, alice), folder(t, alice)
	put(t, filepath.Join(dir, "file"), "text", alice, alice, 0o600)
	put(t, filepath.Join(other, "file"), "text", alice, alice, 0o600)
	neighbour := begin(t, Options{Account: asAlice(), Roots: everything})
	w := must.Get(Prestart(options(t, Options{Account: asAlice(), Roots: everything})))(t)
	for begun := time.Now(); ; { // it has to get as far as that
		if _, wrong := neighbour.ask("list", fmt.Sprintf("/proc/%d/fd", w.p.PID())); wrong == "EACCES" || wrong == "EPERM" {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("a neighbour can look into a process that waits")
		}
	}
	p := must.Get(w.Confine(t.Context(), Confinement{Read: []string{dir}}, nil))(t)
	t.Cleanup(func() { must.Do(t, p.Stop(0)) })
	a := &actor{p, t, json.NewEncoder(p.Conn), json.NewDecoder(p.Conn)}
	a.wants("", "read", filepath.Join(dir, "file"))
	a.wants("EACCES", "read", filepath.Join(other, "file"))
}

const itself = "itself"

// beItself is this program as a worker that takes its time before it enters: until somebody says through a FIFO that it may go on.
func beItself(fifo string) {
	if _, err := os.ReadFile(fifo); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	conn, err := Child()
	if err == nil {
		_, err = fmt.Fprintln(conn, os.Getuid(), os.Getgid())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// TestNobodyLooksIn: from the first instruction on, nobody but root reads or writes the memory of a process of this very program, whose it will be
// or not, however long that takes to enter.
//
//safety:7 memory and files of a process that acts for a user, between its start and its confinement
func TestNobodyLooksIn(t *testing.T) {
	needRoot(t)
	fifo := filepath.Join(folder(t, alice), "go")
	must.Do(t, unix.Mkfifo(fifo, 0o600))
	opens := func(format string, words ...any) bool { // by a process of hers that nothing confines
		cmd := exec.Command("/bin/sh", "-c", "exec 4<"+fmt.Sprintf(format, words...))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice, Gid: alice, Groups: []uint32{team}}}
		return cmd.Run() == nil
	}
	for _, who := range []Account{asAlice(), asAlice(team)} {
		w := must.Get(Prestart(Options{Args: []string{itself, fifo}, Account: who, Stderr: &said{t: t}}))(t)
		for _, name := range []string{"mem", "fd/3", "environ", "maps", "cwd/."} {
			if opens("/proc/%d/%s", w.p.PID(), name) {
				t.Errorf("before it enters, %s can be opened", name)
			}
		}
		must.Do(t, os.WriteFile(fifo, nil, 0)) // which waits until it is being read
		p := must.Get(w.Confine(t.Context(), everything, nil))(t)
		if said := must.Get(bufio.NewReader(p.Conn).ReadString('\n'))(t); said != fmt.Sprintf("%d %d\n", alice, alice) {
			t.Errorf("it has become %q", said)
		}
		if opens("/proc/%d/mem", p.PID()) {
			t.Error("when it has entered, its memory can be opened")
		}
		must.Do(t, p.Stop(0))
	}
	sleeper := exec.Command("/bin/sleep", "60") // one of hers can be looked into, or this test shows nothing
	sleeper.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice, Gid: alice}}
	must.Do(t, sleeper.Start())
	if !opens("/proc/%d/maps", sleeper.Process.Pid) {
		t.Error("her own process can not be looked into")
	}
	must.Do(t, sleeper.Process.Kill())
	_ = sleeper.Wait()
}

func TestReadyEnds(t *testing.T) {
	needRoot(t)
	files := openFiles(t)
	w := must.Get(Prestart(options(t, Options{Account: asAlice()})))(t)
	must.Do(t, w.Stop())
	gone(t, w.p.PID())

	w = must.Get(Prestart(options(t, Options{Account: asAlice()})))(t)
	must.Do(t, w.p.cmd.Process.Kill())
	<-w.p.Done()
	if _, err := w.Confine(t.Context(), everything, nil); err == nil {
		t.Error("a process that was killed was confined")
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d files are open, %d were", now, files)
	}
}
