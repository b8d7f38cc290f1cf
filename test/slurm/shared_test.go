package slurm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"datamove.dev/test/must"
)

// common is the site that tests share, one after the other: one Slurm of three nodes, which the first of them starts, and TestMain stops.
var common commonSite

type commonSite struct {
	site   *site
	ran    map[string]bool // tests that it has seen
	dir    string          // /usr/local/bin and /opt/archive of the cluster, and the programs that are not put aside
	broken bool            // it could not be started
}

// commonConf has lines as only some sites have them: what we read is what Slurm does (TestDeploy).
var commonConf = Options{Nodes: 3, Conf: "Include more/site.conf\n  maxjobcount = 7800 # of them\nFirstJobId=\\\n7\nKillWait=\"31\"\nKillWait=32\n", Etc: []fs.FS{fstest.MapFS{
	"more/site.conf": {Data: []byte("Include beside.conf\nWaitTime=5\n")}, "more/beside.conf": {Data: []byte("MinJobAge=3001\n")},
}}}

// shared gives a test the site that tests share, as it was in the beginning: without jobs, with datamove.
func shared(t *testing.T) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
	Need(t)
	if common.ran[t.Name()] { // by -count: it has left files and datasets
		common.stop()
	}
	if common.site == nil {
		common.start(t)
	}
	common.ran[t.Name()] = true
	s := common.site.in(t)
	t.Cleanup(func() {
		if t.Failed() {
			s.explain()
		}
	})
	s.program("datamove.real")
	s.swap(shippedFiles(t, nil))
	s.quiet()
	s.clear()
	return s
}

func (x *commonSite) start(t *testing.T) {
	t.Helper()
	if x.broken {
		t.Fatal("the cluster of an earlier test could not be started")
	}
	x.broken = true
	dir := must.Get(os.MkdirTemp("", "slurm"))(t)
	archive := filepath.Join(dir, "archive")
	must.Do(t, errors.Join(os.Chmod(dir, 0o755), os.Mkdir(archive, 0o755)))
	programs := ours(t, "datamove", "datamoved")
	must.Do(t, os.CopyFS(filepath.Join(dir, "bin"), os.DirFS(programs)))
	must.Do(t, os.Rename(filepath.Join(dir, "bin/datamove"), filepath.Join(dir, "bin/datamove.real")))
	must.Do(t, os.WriteFile(filepath.Join(dir, "bin/datamove.stand-in"), []byte(standIn), 0o755))
	o := commonConf.with(t, shippedFiles(t, nil), filepath.Join(dir, "bin"), archive).orDefault()
	x.site, x.dir, x.ran = &site{Cluster: &Cluster{t: t, o: o}, agents: map[int]*Daemon{}}, dir, map[string]bool{}
	t.Cleanup(func() {
		if x.broken {
			x.site.explain()
		}
	})
	s := x.site
	s.program("datamove.real")
	s.start()
	s.s3(Address(Controller))
	s.install("tiers:\n" + storeTier(Address(Controller)) + siteTiers + siteRest + `
projects:
  vision: {roots: ["store:", "archive:", "tape:", "slow:", "project:", "scratch:"], members: [anna, ben]}
`)
	x.broken = false
}

func (x *commonSite) stop() {
	if x.site != nil {
		x.site.off()
		_ = os.RemoveAll(x.dir) // below the directory for temporary files
	}
	x.site = nil
}

// in is the same site, in another test.
func (s *site) in(t *testing.T) *site {
	c := *s.Cluster
	c.t = t
	return &site{Cluster: &c, head: s.head, agents: s.agents}
}

// program has one of the directory be datamove from now on: hooks start it anew each time.
func (s *site) program(name string) {
	s.t.Helper()
	bin := filepath.Join(common.dir, "bin")
	_ = os.Remove(bin + "/next") // there is none, mostly
	must.Do(s.t, errors.Join(os.Link(filepath.Join(bin, name), bin+"/next"), os.Rename(bin+"/next", bin+"/datamove")))
}

// standIn puts the stand-in in the place of datamove.
func (s *site) standIn() *Cluster {
	s.t.Helper()
	s.program("datamove.stand-in")
	return s.Cluster
}

// swap exchanges scripts in Lua. Slurm reads job_submit.lua anew when it is younger than the second in which it was read, and burst_buffer.lua each time.
func (c *Cluster) swap(files fstest.MapFS) {
	c.t.Helper()
	for name, f := range files {
		if strings.HasSuffix(name, ".lua") {
			file := c.Path(Controller, "/etc/slurm/"+name)
			next := time.Now()
			if info, err := os.Stat(file); err == nil && info.ModTime().After(next) {
				next = info.ModTime() // of another exchange in this second
			}
			next = next.Add(time.Second)
			must.Do(c.t, errors.Join(os.WriteFile(file+"~", f.Data, 0o644), os.Chtimes(file+"~", next, next), os.Rename(file+"~", file)))
		}
	}
}

// quiet cancels what an earlier test has left, and waits until no job is under way.
func (s *site) quiet() {
	s.t.Helper()
	s.Eventually("no job is left", func() error {
		out, err := s.On(Controller, "squeue", "--noheader", "--format=%A")
		if ids := strings.Fields(out); err == nil && len(ids) > 0 {
			_, err = s.On(Controller, append([]string{"scancel"}, ids...)...)
			err = errors.Join(err, fmt.Errorf("jobs %q are", ids))
		}
		return err
	})
	s.allIdleNow()
}
