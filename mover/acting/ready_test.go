package acting

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

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
	w := must.Get(Ready(options(t, Options{Account: asAlice(), Roots: everything})))(t)
	for begun := time.Now(); ; { // it has to get as far as that
		if _, wrong := neighbour.ask("list", fmt.Sprintf("/proc/%d/fd", w.p.PID())); wrong == "EACCES" || wrong == "EPERM" {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("a neighbour can look into a process that waits")
		}
	}
	p := must.Get(w.Confine(t.Context(), Confinement{Read: []string{dir}}))(t)
	t.Cleanup(func() { must.Do(t, p.Stop(0)) })
	a := &actor{p, t, json.NewEncoder(p.Conn), json.NewDecoder(p.Conn)}
	a.wants("", "read", filepath.Join(dir, "file"))
	a.wants("EACCES", "read", filepath.Join(other, "file"))
}

func TestReadyEnds(t *testing.T) {
	needRoot(t)
	files := openFiles(t)
	w := must.Get(Ready(options(t, Options{Account: asAlice()})))(t)
	must.Do(t, w.Stop())
	gone(t, w.p.PID())

	w = must.Get(Ready(options(t, Options{Account: asAlice()})))(t)
	must.Do(t, w.p.cmd.Process.Kill())
	<-w.p.Done()
	if _, err := w.Confine(t.Context(), everything); err == nil {
		t.Error("a process that was killed was confined")
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d files are open, %d were", now, files)
	}
}
