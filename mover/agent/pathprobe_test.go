package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// TestSights: a tier is seen when it is there, and one that hangs keeps nobody.
func TestSights(t *testing.T) {
	dir := t.TempDir()
	s := pathProbes{log: slog.New(slog.DiscardHandler)}
	eventually := func(what string, tier config.Tier, there bool) {
		t.Helper()
		for begun := time.Now(); s.at("x", tier).there != there; time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%s: it is seen otherwise", what)
			}
		}
	}
	path := filepath.Join(dir, "tier")
	tier := config.Tier{Path: path}
	eventually("not there", tier, false)
	must.Do(t, os.Mkdir(path, 0o755))
	eventually("mounted", tier, true)
	if got := s.at("x", tier); got.total == 0 || got.free > got.total {
		t.Errorf("it has %+v", got)
	}
	must.Do(t, os.Remove(path))
	eventually("gone", tier, false)

	hung := &pathProbe{last: pathState{there: true, total: 7}, at: time.Now(), done: make(chan struct{})} // a look that does not end
	y := config.Tier{Path: "/hung"}
	s.seen["y\x00/hung\x00"] = hung
	if got := s.at("y", y); got.total != 7 {
		t.Errorf("at first what was seen counts: %+v", got)
	}
	hung.at = time.Now().Add(-2 * probeLasts)
	if s.at("y", y).there {
		t.Error("it hangs, and is said to be there")
	}
}

// TestNotMounted: a tier that is on another kind of file system than it has to be is not there, and that is told once.
//
//safety:4 with mover/backend TestWhereATierIsNotMounted
func TestNotMounted(t *testing.T) {
	dir := t.TempDir()
	here := must.Get(fstype.KindAt(dir))(t)
	var said strings.Builder
	s := pathProbes{log: slog.New(slog.NewTextHandler(&said, nil))}
	l := &pathProbe{}
	look := func(tier config.Tier) pathState {
		l.done = make(chan struct{})
		s.run(l, "project", tier)
		return l.last
	}
	if !look(config.Tier{Path: dir, Kind: here}).there || said.Len() > 0 {
		t.Errorf("it is there: %s", said.String())
	}
	for range 2 {
		if got := look(config.Tier{Path: dir, Kind: "lustre"}); !reflect.DeepEqual(got, pathState{}) {
			t.Errorf("it is the disk that the mount point is on: %+v", got)
		}
	}
	if strings.Count(said.String(), "has to be on one of kind lustre: is it mounted?") != 1 {
		t.Errorf("it is said once, and not so:\n%s", said.String())
	}
	if !look(config.Tier{Path: dir, Kind: here}).there || !strings.Contains(said.String(), "a tier is here now") {
		t.Errorf("it was mounted late: %s", said.String())
	}
}
