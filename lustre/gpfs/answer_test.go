package gpfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// serve is the GUI of a world: jobs are done before they are answered, and told by the next call.
func serve(dir string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w, err := loadWorld(dir)
		if err != nil {
			say(500, err.Error())(rw, r)
			return
		}
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/scalemgmt/v2/"), "/")
		if parts[0] == "jobs" {
			text, _ := os.ReadFile(filepath.Join(dir, "job.json"))
			say(200, string(text))(rw, r)
			return
		}
		if r.Method == http.MethodGet {
			status, reply := w.reply(parts)
			reply["status"] = map[string]any{"code": status, "message": "said"}
			text, _ := json.Marshal(reply)
			say(status, string(text))(rw, r)
			return
		}
		var body map[string]string
		_ = json.NewDecoder(r.Body).Decode(&body)
		err = w.do(r.Method, parts, body)
		job := map[string]any{"jobId": 7, "status": "COMPLETED", "result": map[string]any{"stderr": []string{}}}
		if err != nil {
			job["status"], job["result"] = "FAILED", map[string]any{"stderr": []string{err.Error()}}
		}
		text, _ := json.Marshal(map[string]any{"jobs": []any{job}, "status": map[string]any{"code": 200, "message": ""}})
		_ = errors.Join(w.keep(dir), os.WriteFile(filepath.Join(dir, "job.json"), text, 0o600))
		say(202, `{"jobs":[{"jobId":7,"status":"RUNNING"}],"status":{"code":202,"message":""}}`)(rw, r)
	}
}

func (w *world) do(method string, parts []string, body map[string]string) error {
	what := method + " " + strings.Join(parts[2:min(len(parts), 3)], "")
	if len(parts) > 4 {
		what += " " + parts[4]
	}
	if w.Stuck != "" && strings.HasSuffix(what, w.Stuck) {
		return errors.New("the daemon is down")
	}
	switch what {
	case "POST filesets":
		if err := w.create(body["filesetName"]); err != nil {
			return err
		}
		return w.link(body["filesetName"], body["path"])
	case "DELETE filesets":
		return w.remove(parts[3])
	case "POST filesets link":
		return w.link(parts[3], body["path"])
	case "DELETE filesets link":
		return w.unlink(parts[3])
	case "POST quotas":
		var l lustre.Limits
		_, err := fmt.Sscanf(body["blockSoftLimit"]+" "+body["blockHardLimit"]+" "+body["filesSoftLimit"]+" "+body["filesHardLimit"], "%dK %dK %d %d",
			&l.SoftBytes, &l.HardBytes, &l.SoftFiles, &l.HardFiles)
		l.SoftBytes, l.HardBytes = l.SoftBytes<<10, l.HardBytes<<10
		return errors.Join(err, w.limit(body["objectName"], l))
	}
	return errors.New("no " + what + " in this world")
}

func (w *world) reply(parts []string) (int, map[string]any) {
	fileset := func(f Fileset) map[string]any {
		config := map[string]any{"path": f.Junction, "inodeSpace": f.InodeSpace, "id": f.ID, "status": "Linked", "rootInode": f.RootInode}
		if f.Junction == "" {
			config["status"], config["path"] = "Unlinked", "--"
		}
		return map[string]any{"filesetName": f.Name, "config": config}
	}
	if len(parts) < 2 || parts[1] != w.Name {
		return 400, map[string]any{}
	}
	if len(parts) == 2 {
		return 200, map[string]any{"filesystems": []any{map[string]any{"name": w.Name, "mount": map[string]any{"mountPoint": w.Theirs},
			"block": map[string]any{"blockSize": blockOf}, "replication": map[string]any{"defaultDataReplicas": 1, "maxDataReplicas": 2},
			"quota": map[string]any{"quotasEnforced": w.enforced(), "filesetdfEnabled": true}}}}
	}
	list := []any{}
	switch parts[2] {
	case "filesets":
		for _, f := range w.filesets() {
			if len(parts) == 3 || parts[3] == f.Name {
				list = append(list, fileset(f))
			}
		}
		return 200, map[string]any{"filesets": list}
	case "quotas":
		for name, l := range w.Quotas {
			f, _ := w.find(name)
			list = append(list, map[string]any{"quotaType": "FILESET", "objectName": name, "objectId": f.ID,
				"blockUsage": 64, "blockInDoubt": 0, "blockQuota": l.SoftBytes >> 10, "blockLimit": l.HardBytes >> 10, "blockGrace": "none",
				"filesUsage": 3, "filesInDoubt": 0, "filesQuota": l.SoftFiles, "filesLimit": l.HardFiles, "filesGrace": "none"})
		}
		return 200, map[string]any{"quotas": list}
	case "pools":
		return 200, map[string]any{"storagePool": []any{map[string]any{"storagePoolName": "data", "totalDataInKB": 1 << 30, "freeDataInKB": 1 << 29}}}
	}
	return 404, map[string]any{}
}

// each runs a test with both ways to ask, in a world of its own.
func each(t *testing.T, test func(*testing.T, *lustre.System, *world, string)) {
	for _, way := range []string{"commands", "REST"} {
		t.Run(way, func(t *testing.T) {
			c := commands(t)
			c.play(t, "mmlspool", played{Out: fixture(t, "commands/mmlspool.txt")})
			w := newWorld(t, c.dir)
			o := Options{CommandsDir: c.dir}
			if way == "REST" {
				g := newGUI(t, serve(c.dir))
				o = g.option
				o.CommandsDir = c.dir
			}
			s := &lustre.System{Kind: lustre.IsGPFS, Type: "gpfs", Name: "/dev/fs1", Mount: w.Mount}
			Answer(s, o)
			// Commands that are processes are tested beside; hundreds of them are slow.
			l := s.Layout.(layouts)
			l.commands.here()
			if client, ok := s.Quota.(quotas).asked.(*Client); ok {
				client.pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
			}
			test(t, s, w, c.dir)
		})
	}
}

func open(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

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
				if err := os.WriteFile(full, nil, 0o600); err != nil {
					t.Fatal(err)
				}
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
		if err := os.Rename(filepath.Join(w.Mount, "vision/deep"), filepath.Join(w.Mount, "moved")); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Quota.Project(t.Context(), deep); err != nil || got.Name != "root" {
			t.Errorf("moved: %+v, %v", got, err)
		}
		if err := os.Remove(filepath.Join(w.Mount, "moved")); err == nil {
			t.Fatal("it is not empty")
		}
		if err := os.RemoveAll(filepath.Join(w.Mount, "moved")); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Quota.Project(t.Context(), deep); err == nil {
			t.Errorf("deleted: %+v", got)
		}
	})
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
		if err := s.Quota.SetQuota(t.Context(), fd, vision, limits); err != nil {
			t.Error(err)
		}
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
		if reads++; reads == 4 { // after the job's own one, and two of old limits
			now := reload(t, c.dir)
			now.Quotas["vision"] = lustre.Limits{HardBytes: 4 << 20}
			now.save(t, c.dir)
		}
		return collected(ctx, d)
	}
	s := quotas{mounted{name: "fs1", mount: w.Mount, asked: g.Client}}
	if err := s.SetQuota(t.Context(), open(t, w.Mount), lustre.Project{ID: 1, Name: "vision"}, lustre.Limits{HardBytes: 4 << 20}); err != nil || reads != 4 {
		t.Errorf("%v after %d pauses", err, reads)
	}
}

func reload(t *testing.T, dir string) *world {
	t.Helper()
	w, err := loadWorld(dir)
	if err != nil {
		t.Fatal(err)
	}
	return w
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
		if got, err := s.Quota.Project(t.Context(), open(t, filepath.Join(w.Mount, "vision", "run 1'ä"))); err != nil || got != p {
			t.Errorf("it is under %+v, %v", got, err)
		}
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
		if err := maker.RemoveProject(t.Context(), fd, "none", p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("nothing: %v", err)
		}
		if err := maker.RemoveProject(t.Context(), fd, "run 1'ä", p); err != nil {
			t.Error(err)
		}
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
			p, err := maker.MakeProject(t.Context(), fd, "run", 0o700)
			if err != nil {
				t.Fatal(err)
			}
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

func TestUsage(t *testing.T) {
	each(t, func(t *testing.T, s *lustre.System, w *world, _ string) {
		targets, err := s.Usage.Targets(t.Context(), open(t, w.Mount))
		last := len(targets) - 1
		if err != nil || last < 0 || targets[last].Name != "data" || targets[last].Kind != lustre.InPool || targets[last].FreeBytes == 0 || targets[last].Inactive != "" {
			t.Errorf("%+v, %v", targets, err)
		}
		if last > 0 && targets[0].Inactive == "" {
			t.Errorf("a pool of metadata has room: %+v", targets[0])
		}
	})
}

func TestLayout(t *testing.T) {
	each(t, func(t *testing.T, s *lustre.System, w *world, dir string) {
		vision := open(t, filepath.Join(w.Mount, "vision"))
		var st unix.Stat_t
		if err := unix.Fstat(vision, &st); err != nil {
			t.Fatal(err)
		}
		blockOfThis := int64(st.Blksize) //nolint:unconvert // it is an int32 on arm64
		component := lustre.Component{End: lustre.EOF, Pattern: lustre.RAID0, StripeCount: lustre.AllTargets, StripeBytes: blockOfThis, FirstTarget: lustre.AnyTarget, Pool: "data"}
		wanted := lustre.Layout{Components: []lustre.Component{component, component}}
		fd, err := s.Layout.Create(t.Context(), vision, "-P", unix.O_WRONLY, 0o640, wanted)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Layout.Layout(t.Context(), fd)
		if err != nil || lustre.Same(&wanted, &got, 0) != "" || got.Mirrored != lustre.ReadOnly || got.Components[1].Mirror() != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		_ = unix.Close(fd)
		if _, err := s.Layout.Create(t.Context(), vision, "-P", unix.O_WRONLY, 0o640, wanted); !errors.Is(err, fs.ErrExist) {
			t.Errorf("again: %v", err)
		}
		if fd, err = s.Layout.Create(t.Context(), vision, "plain", unix.O_WRONLY, 0o640, lustre.Layout{}); err != nil {
			t.Errorf("without a layout: %v", err)
		}
		_ = unix.Close(fd)
		if _, err := s.Layout.Layout(t.Context(), vision); !errors.Is(err, lustre.ErrInherited) {
			t.Errorf("of a directory: %v", err)
		}
		if err := s.Layout.SetDefault(t.Context(), vision, wanted); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a default: %v", err)
		}
		if c, err := s.Layout.Cluster(t.Context(), vision); err != nil || c.Name != "fs1" || len(c.OSTs) > 0 {
			t.Errorf("%+v, %v", c, err)
		} else if _, ok := c.Pools["data"]; !ok {
			t.Errorf("%+v", c)
		}
		change := func(f func(*lustre.Component)) lustre.Layout {
			c := component
			f(&c)
			return lustre.Layout{Components: []lustre.Component{c}}
		}
		now := reload(t, dir)
		now.Deaf = true
		for name, c := range map[string]struct {
			lustre.Layout
			want error
		}{
			"a stripe count":  {change(func(c *lustre.Component) { c.StripeCount = 4 }), errors.ErrUnsupported},
			"a stripe size":   {change(func(c *lustre.Component) { c.StripeBytes = 64 << 10 }), errors.ErrUnsupported},
			"a part":          {change(func(c *lustre.Component) { c.End = 1 << 20 }), errors.ErrUnsupported},
			"on the MDT":      {change(func(c *lustre.Component) { c.Pattern = lustre.OnMDT }), errors.ErrUnsupported},
			"no such pool":    {change(func(c *lustre.Component) { c.Pool = "none" }), lustre.ErrNotApplied},
			"a pool -x":       {change(func(c *lustre.Component) { c.Pool = "-x" }), ErrName},
			"two pools":       {lustre.Layout{Components: []lustre.Component{component, {End: lustre.EOF}}}, errors.ErrUnsupported},
			"four copies":     {lustre.Layout{Components: []lustre.Component{component, component, component, component}}, errors.ErrUnsupported},
			"foreign":         {lustre.Layout{Foreign: &lustre.Foreign{}}, errors.ErrUnsupported},
			"bytes":           {lustre.Layout{Opaque: []byte("x")}, errors.ErrUnsupported},
			"yes and nothing": {wanted, lustre.ErrNotApplied},
		} {
			if name == "yes and nothing" {
				now.save(t, dir)
			}
			fd, err := s.Layout.Create(t.Context(), vision, "other", unix.O_WRONLY, 0o640, c.Layout)
			if !errors.Is(err, c.want) || fd != -1 {
				t.Errorf("%s: %d, %v", name, fd, err)
			}
			if is(filepath.Join(w.Mount, "vision", "other")) {
				t.Errorf("%s left a file", name)
			}
			now.Deaf = false
			now.save(t, dir)
			now.Deaf = true
		}
	})
}

// TestOffline: what is on tape says so, and a copy that is behind, too.
func TestOffline(t *testing.T) {
	a, err := parseAttributes(fixture(t, "commands/mmlsattr.txt"))
	l := a.layout(4 << 20)
	if err != nil || !l.Released() || len(l.Components) != 2 || l.Components[0].Flags.Has(lustre.Stale) || !l.Components[1].Flags.Has(lustre.Stale) {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestLacks: what can not be answered says why, and what statfs knows is told all the same.
func TestLacks(t *testing.T) {
	s := &lustre.System{Kind: lustre.IsGPFS, Name: "fs1", Mount: "/"}
	Answer(s, Options{CommandsDir: "/nowhere"})
	if s.Layout != nil || s.Quota != nil || s.HSM != nil || s.Change != nil {
		t.Errorf("%+v", s)
	}
	for _, q := range []lustre.Question{lustre.AskLayout, lustre.AskQuota, lustre.AskHSM, lustre.AskChange} {
		if err := s.Lack(q); !errors.Is(err, errors.ErrUnsupported) || strings.Contains(err.Error(), "no such thing") {
			t.Errorf("%s: %v", q, err)
		}
	}
	targets, err := s.Usage.Targets(t.Context(), open(t, t.TempDir()))
	if err != nil || len(targets) != 1 || targets[0].TotalBytes <= 0 || targets[0].Name != "fs1" {
		t.Errorf("%+v, %v", targets, err)
	}
	if _, err := (FileSystem{Name: "fs1"}).FilesetCapacity(open(t, t.TempDir())); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without filesetdf: %v", err)
	}
	if c, err := (FileSystem{FilesetStatfs: true}).FilesetCapacity(open(t, t.TempDir())); err != nil || c.TotalBytes != targets[0].TotalBytes {
		t.Errorf("with filesetdf: %+v, %v", c, err)
	}
	// Who was told of a GUI that can not be used does not ask somebody else.
	c := commands(t)
	s = &lustre.System{Kind: lustre.IsGPFS, Name: "fs1", Mount: "/"}
	Answer(s, Options{URL: "https://gui.example.org", CredentialsFile: "/nowhere", CommandsDir: c.dir})
	if s.Quota != nil || s.Layout == nil || !strings.Contains(s.Lacks[lustre.AskQuota], "/nowhere") {
		t.Errorf("%+v", s)
	}
}
