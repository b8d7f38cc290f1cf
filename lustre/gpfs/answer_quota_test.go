package gpfs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

func TestProject(t *testing.T) {
	each(t, func(t *testing.T, s *lustre.System, w *world, dir string) {
		for path, want := range map[string]lustre.Project{
			"":                 {Name: "root", Inherit: true},
			"vision":           {ID: 1, Name: "vision", Inherit: true},
			"vision/deep":      {ID: 1, Name: "vision", Inherit: true},
			"vision-not":       {Name: "root", Inherit: true},
			"old-runs":         {Name: "root", Inherit: true}, // its fileset is not linked
			"vision/deep/file": {ID: 1, Name: "vision", Inherit: true},
		} {
			full := filepath.Join(w.Mount, path)
			if strings.HasSuffix(path, "file") {
				must.Do(t, os.WriteFile(full, nil, 0o600))
			} else if err := os.MkdirAll(full, 0o755); err != nil {
				t.Fatal(err)
			}
			got, err := s.Quota.Project(t.Context(), open(t, full))
			if err != nil || got != want {
				t.Errorf("%q: %+v, %v", path, got, err)
			}
		}
		deep := open(t, filepath.Join(w.Mount, "vision/deep"))
		if err := s.Quota.SetProject(t.Context(), deep, lustre.Project{Name: "vision"}); err != nil {
			t.Errorf("it is so already: %v", err)
		}
		if err := s.Quota.SetProject(t.Context(), deep, lustre.Project{Name: "root"}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("into another fileset: %v", err)
		}
		// What is open and has gone, or is somewhere else, is not judged by its old name.
		must.Do(t, os.Rename(filepath.Join(w.Mount, "vision/deep"), filepath.Join(w.Mount, "moved")))
		if got, err := s.Quota.Project(t.Context(), deep); err != nil || got.Name != "root" {
			t.Errorf("moved: %+v, %v", got, err)
		}
		if err := os.Remove(filepath.Join(w.Mount, "moved")); err == nil {
			t.Fatal("it is not empty")
		}
		must.Do(t, os.RemoveAll(filepath.Join(w.Mount, "moved")))
		if got, err := s.Quota.Project(t.Context(), deep); err == nil {
			t.Errorf("deleted: %+v", got)
		}
	})
}

// TestGUIBehind: a fileset that the GUI does not know yet is not taken for the one around it.
func TestGUIBehind(t *testing.T) {
	c := commands(t)
	w := newWorld(t, c.dir)
	o := newGUI(t, func(rw http.ResponseWriter, r *http.Request) {
		old := *w
		old.Filesets = w.Filesets[:1]
		status, reply := old.reply(strings.Split(strings.TrimPrefix(r.URL.Path, "/scalemgmt/v2/"), "/"))
		reply["status"] = map[string]any{"code": status, "message": ""}
		text, _ := json.Marshal(reply)
		say(status, string(text))(rw, r)
	}).option
	o.CommandsDir = c.dir
	s := &lustre.System{Kind: lustre.IsGPFS, Name: "fs1", Mount: w.Mount}
	Answer(s, o)
	if got, err := s.Quota.Project(t.Context(), open(t, filepath.Join(w.Mount, "vision"))); !errors.Is(err, ErrConflict) {
		t.Errorf("it is %+v, %v", got, err)
	}
	if got, err := s.Quota.Project(t.Context(), open(t, w.Mount)); err != nil || got.Name != "root" {
		t.Errorf("of the root it is %+v, %v", got, err)
	}
	c.play(t, "mmlsattr", played{Err: "You must have root authority", Exit: 1})
	if got, err := s.Quota.Project(t.Context(), open(t, w.Mount)); err != nil || got.Name != "root" {
		t.Errorf("without rights it is %+v, %v", got, err)
	}
}

// TestPartOfTheFileSystem: where only a part is mounted, a path tells nothing of filesets, and
// no wrong one is named.
func TestPartOfTheFileSystem(t *testing.T) {
	each(t, func(t *testing.T, s *lustre.System, w *world, dir string) {
		w.Mount, w.Theirs = filepath.Dir(w.Mount), "/gpfs" // the cluster's root is above our mount
		w.Filesets[0].Junction = "/gpfs"
		w.save(t, dir)
		if got, err := s.Quota.Project(t.Context(), open(t, filepath.Join(s.Mount, "vision"))); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("it is %+v, %v", got, err)
		}
	})
}

func TestQuota(t *testing.T) {
	each(t, func(t *testing.T, s *lustre.System, w *world, dir string) {
		vision := lustre.Project{ID: 1, Name: "vision"}
		fd := open(t, w.Mount)
		q, err := s.Quota.Quota(t.Context(), fd, vision)
		if err != nil || q.HardBytes != 0 || !q.Enforced || q.RootToo || q.Doubt == "" || q.Project.ID != 1 {
			t.Errorf("without an entry: %+v, %v", q, err)
		}
		limits := lustre.Limits{SoftBytes: 100<<20 + 1, HardBytes: 200 << 20, SoftFiles: 10, HardFiles: 20}
		must.Tell(t, s.Quota.SetQuota(t.Context(), fd, vision, limits))
		q, err = s.Quota.Quota(t.Context(), fd, vision)
		want := lustre.Limits{SoftBytes: 104 << 20, HardBytes: 200 << 20, SoftFiles: 10, HardFiles: 20} // up to whole blocks
		if err != nil || q.Limits != want || q.UsedBytes != 64<<10 || q.UsedFiles != 3 || !q.CountsFiles || !q.HasSoft || q.Doubt != "" {
			t.Errorf("%+v, %v", q, err)
		}
		if left, ok := q.LeftBytes(); !ok || left != 200<<20-64<<10 {
			t.Errorf("%d are left, %v", left, ok)
		}
		for _, p := range []lustre.Project{{Name: "none"}, {}} {
			if err := s.Quota.SetQuota(t.Context(), fd, p, limits); err == nil {
				t.Errorf("%+v has limits", p)
			}
			if q, err := s.Quota.Quota(t.Context(), fd, p); err == nil {
				t.Errorf("%+v has %+v", p, q)
			}
		}
		if err := s.Quota.SetQuota(t.Context(), fd, vision, lustre.Limits{HardBytes: -1}); !errors.Is(err, ErrName) {
			t.Errorf("a negative limit: %v", err)
		}
		*w = *reload(t, dir)
		w.Deaf, w.NoQuota = true, true
		w.save(t, dir)
		if err := s.Quota.SetQuota(t.Context(), fd, vision, lustre.Limits{}); !errors.Is(err, lustre.ErrNotApplied) {
			t.Errorf("yes was said and nothing done: %v", err)
		}
		if q, err := s.Quota.Quota(t.Context(), fd, vision); err != nil || q.Enforced {
			t.Errorf("not enforced: %+v, %v", q, err)
		}
	})
}

// TestQuotaSeenLate: the GUI tells old limits for a while.
func TestQuotaSeenLate(t *testing.T) {
	c := commands(t)
	w := newWorld(t, c.dir)
	g := newGUI(t, serve(c.dir))
	w.Deaf = true
	w.save(t, c.dir)
	reads, collected := 0, g.pause
	g.pause = func(ctx context.Context, d time.Duration) error {
		if reads++; reads == 7 { // after the job's own three, two of questions that are refused once, and two of old limits
			now := reload(t, c.dir)
			now.Quotas["vision"] = lustre.Limits{HardBytes: 4 << 20}
			now.save(t, c.dir)
		}
		return collected(ctx, d)
	}
	s := quotas{mounted{name: "fs1", mount: w.Mount, asked: g.Client}}
	if err := s.SetQuota(t.Context(), open(t, w.Mount), lustre.Project{ID: 1, Name: "vision"}, lustre.Limits{HardBytes: 4 << 20}); err != nil || reads != 7 {
		t.Errorf("%v after %d pauses", err, reads)
	}
}

// TestProjectSeenLate: the GUI does not know for a while of the fileset that it has made, or
// not that it is linked.
func TestProjectSeenLate(t *testing.T) {
	for name, late := range map[string]func(http.ResponseWriter, *http.Request){
		"unknown":  say(400, fixture(t, "rest/bad-request.json")),
		"unlinked": nil,
	} {
		t.Run(name, func(t *testing.T) {
			c := commands(t)
			w := newWorld(t, c.dir)
			asked := 0
			world := serve(c.dir)
			g := newGUI(t, func(rw http.ResponseWriter, r *http.Request) {
				last := path.Base(r.URL.Path)
				if r.Method != http.MethodGet || !strings.HasPrefix(last, "p-run-") {
					world(rw, r)
					return
				}
				switch asked++; {
				case asked > 3:
					world(rw, r)
				case late != nil:
					late(rw, r)
				default:
					say(200, `{"filesets":[{"filesetName":"`+last+`","config":{"id":5,"inodeSpace":1,"isInodeSpaceOwner":false,"status":"Unlinked","path":"--"}}],"status":{"code":200,"message":""}}`)(rw, r)
				}
			})
			s := quotas{mounted{name: "fs1", mount: w.Mount, asked: g.Client}}
			p, err := s.MakeProject(t.Context(), open(t, filepath.Join(w.Mount, "vision")), "run", 0o750)
			if err != nil || p.ID != 5 || asked != 5 { // one is refused
				t.Errorf("%+v, %v after %d questions", p, err, asked)
			}
		})
	}
}

// TestProjectOutlives: a caller goes while its fileset is made. No fileset is left, or the error says which one may come still.
func TestProjectOutlives(t *testing.T) {
	for _, stays := range []bool{false, true} {
		t.Run(fmt.Sprintf("the job goes on: %v", stays), func(t *testing.T) {
			c := commands(t)
			w := newWorld(t, c.dir)
			world, job := serve(c.dir), ""
			g := newGUI(t, func(rw http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/jobs/") {
					if job = cmp.Or(job, path.Base(r.URL.Path)); stays && job == path.Base(r.URL.Path) { // the GUI tells no more of it
						say(403, `{}`)(rw, r)
						return
					}
				}
				world(rw, r)
			})
			ctx, leave := context.WithCancel(t.Context())
			pause := g.pause
			g.pause = func(now context.Context, d time.Duration) error {
				if job == "" && d == firstPoll {
					leave()
				}
				return pause(now, d)
			}
			s := quotas{mounted{name: "fs1", mount: w.Mount, asked: g.Client}}
			_, err := s.MakeProject(ctx, open(t, filepath.Join(w.Mount, "vision")), "run", 0o750)
			if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "may be left behind") != stays {
				t.Errorf("it is %v", err)
			}
			for range looks {
				r := httptest.NewRequest(http.MethodGet, "/scalemgmt/v2/jobs/"+job, nil)
				world(httptest.NewRecorder(), r)
			}
			if now := reload(t, c.dir); (len(now.Filesets) > 3) != stays {
				t.Errorf("left: %+v", now.Filesets)
			}
		})
	}
}

// TestProjectNeverSeen: what the GUI made and never tells to be linked is taken away again.
func TestProjectNeverSeen(t *testing.T) {
	c := commands(t)
	w := newWorld(t, c.dir)
	world := serve(c.dir)
	g := newGUI(t, func(rw http.ResponseWriter, r *http.Request) {
		if last := path.Base(r.URL.Path); r.Method == http.MethodGet && strings.HasPrefix(last, "p-run-") {
			say(200, `{"filesets":[{"filesetName":"`+last+`","config":{"id":5,"inodeSpace":1,"isInodeSpaceOwner":false,"status":"Unlinked"}}],"status":{"code":200,"message":""}}`)(rw, r)
			return
		}
		world(rw, r)
	})
	s := quotas{mounted{name: "fs1", mount: w.Mount, asked: g.Client}}
	if p, err := s.MakeProject(t.Context(), open(t, filepath.Join(w.Mount, "vision")), "run", 0o750); !errors.Is(err, lustre.ErrNotApplied) || strings.Contains(err.Error(), "left behind") {
		t.Errorf("%+v, %v", p, err)
	}
	if now := reload(t, c.dir); len(now.Filesets) != 3 || is(filepath.Join(w.Mount, "vision", "run")) {
		t.Errorf("left: %+v", now.Filesets)
	}
}

func TestMakeProject(t *testing.T) {
	each(t, func(t *testing.T, s *lustre.System, w *world, dir string) {
		maker := s.Quota.(lustre.ProjectMaker)
		fd := open(t, filepath.Join(w.Mount, "vision"))
		p, err := maker.MakeProject(t.Context(), fd, "run 1'ä", 0o2770)
		if err != nil || p.ID == 0 || !strings.HasPrefix(p.Name, "p-run_1__-") {
			t.Fatalf("%+v, %v", p, err)
		}
		info, err := os.Stat(filepath.Join(w.Mount, "vision", "run 1'ä"))
		if err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o770 {
			t.Errorf("%v, %v", info, err)
		}
		run := must.Get(os.Open(filepath.Join(w.Mount, "vision", "run 1'ä")))(t)
		if got, err := s.Quota.Project(t.Context(), int(run.Fd())); err != nil || got != p {
			t.Errorf("it is under %+v, %v", got, err)
		}
		if inside, err := maker.MakeProject(t.Context(), int(run.Fd()), "deeper", 0o700); err != nil {
			t.Errorf("in a dependent fileset: %+v, %v", inside, err)
		} else if err := maker.RemoveProject(t.Context(), int(run.Fd()), "deeper", inside); err != nil {
			t.Error(err)
		}
		if err := maker.RemoveProject(t.Context(), fd, "run 1'ä", p); !errors.Is(err, ErrRefused) || !is(run.Name()) {
			t.Errorf("one that is open: %v", err)
		}
		must.Do(t, run.Close())
		if _, err := maker.MakeProject(t.Context(), fd, "run 1'ä", 0o700); !errors.Is(err, fs.ErrExist) {
			t.Errorf("again: %v", err)
		}
		for _, base := range []string{"", ".", "..", "a/b", "a\nb"} {
			if _, err := maker.MakeProject(t.Context(), fd, base, 0o700); !errors.Is(err, ErrName) {
				t.Errorf("%q: %v", base, err)
			}
		}
		for name, wrong := range map[string]error{
			"another project": maker.RemoveProject(t.Context(), fd, "run 1'ä", lustre.Project{ID: 1, Name: "vision"}),
			"no root":         maker.RemoveProject(t.Context(), fd, "deep", lustre.Project{ID: 1, Name: "vision"}),
		} {
			if !errors.Is(wrong, ErrConflict) {
				t.Errorf("%s: %v", name, wrong)
			}
		}
		if err := maker.RemoveProject(t.Context(), fd, "none", p); !errors.Is(err, ErrConflict) {
			t.Errorf("nothing, of a fileset that is elsewhere: %v", err)
		}
		must.Tell(t, maker.RemoveProject(t.Context(), fd, "run 1'ä", p))
		if err := maker.RemoveProject(t.Context(), fd, "run 1'ä", p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("again: %v", err)
		}
		if now := reload(t, dir); len(now.Filesets) != 3 {
			t.Errorf("left: %+v", now.Filesets)
		}
	})
}

// TestProjectHalfRemoved: who is killed between the unlinking of a fileset and its end is followed by one who ends it, by its name.
//
//safety:5/volumes with csi/volumestore TestFilesetGoes
func TestProjectHalfRemoved(t *testing.T) {
	each(t, func(t *testing.T, s *lustre.System, w *world, dir string) {
		maker, fd := s.Quota.(quotas), open(t, filepath.Join(w.Mount, "vision"))
		p := must.Get(maker.MakeProject(t.Context(), fd, "run", 0o700))(t)
		must.Do(t, maker.asked.UnlinkFileset(t.Context(), "fs1", p.Name, false))
		other := p
		other.ID++
		if err := maker.RemoveProject(t.Context(), fd, "run", other); !errors.Is(err, ErrConflict) {
			t.Errorf("another one of its name: %v", err)
		}
		must.Tell(t, maker.RemoveProject(t.Context(), fd, "run", p))
		if now := reload(t, dir); len(now.Filesets) != 3 {
			t.Errorf("left: %+v", now.Filesets)
		}
	})
}

// TestProjectHalfMade: what fails on the way leaves no fileset, and what can not be deleted stays in sight.
func TestProjectHalfMade(t *testing.T) {
	for _, stuck := range []struct{ commands, rest string }{{"mmlinkfileset", "-"}, {"mmdelfileset", "DELETE filesets"}} {
		each(t, func(t *testing.T, s *lustre.System, w *world, dir string) {
			maker := s.Quota.(lustre.ProjectMaker)
			fd := open(t, filepath.Join(w.Mount, "vision"))
			set := func(way string) {
				now := reload(t, dir)
				now.Stuck = way
				now.save(t, dir)
			}
			way := stuck.rest
			if strings.Contains(t.Name(), "/commands") {
				way = stuck.commands
			}
			if way == "mmlinkfileset" {
				set(way)
				if p, err := maker.MakeProject(t.Context(), fd, "run", 0o700); !errors.Is(err, ErrRefused) {
					t.Errorf("%+v, %v", p, err)
				}
				if now := reload(t, dir); len(now.Filesets) != 3 {
					t.Errorf("left: %+v", now.Filesets)
				}
				return
			}
			p := must.Get(maker.MakeProject(t.Context(), fd, "run", 0o700))(t)
			if way == "-" {
				return
			}
			set(way)
			if err := maker.RemoveProject(t.Context(), fd, "run", p); !errors.Is(err, ErrRefused) {
				t.Errorf("it is %v", err)
			}
			if got, err := s.Quota.Project(t.Context(), open(t, filepath.Join(w.Mount, "vision", "run"))); err != nil || got != p {
				t.Errorf("it is %+v, %v", got, err)
			}
		})
	}
}
