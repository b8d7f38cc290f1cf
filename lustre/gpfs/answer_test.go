package gpfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
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
		if err := w.create(body["filesetName"], body["inodeSpace"]); err != nil {
			return err
		}
		return w.link(body["filesetName"], body["path"])
	case "DELETE filesets":
		return w.remove(parts[3], true) // but with the parameter "safe"
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
		config := map[string]any{"path": f.Junction, "inodeSpace": f.InodeSpace, "isInodeSpaceOwner": f.Independent, "id": f.ID, "status": "Linked", "rootInode": f.RootInode}
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
			"quota": map[string]any{"quotasEnforced": w.enforced()}}}}
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
		return 200, map[string]any{"storagePool": []any{map[string]any{"storagePoolName": "system", "totalMetaInKB": 1 << 24, "freeMetaInKB": 1 << 23},
			map[string]any{"storagePoolName": "data", "totalDataInKB": 1 << 30, "freeDataInKB": 1 << 29}}}
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
	f := must.Get(os.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

func reload(t *testing.T, dir string) *world {
	t.Helper()
	w := must.Get(loadWorld(dir))(t)
	return w
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
	// Who was told of a GUI that can not be used does not ask somebody else.
	c := commands(t)
	s = &lustre.System{Kind: lustre.IsGPFS, Name: "fs1", Mount: "/"}
	Answer(s, Options{URL: "https://gui.example.org", CredentialsFile: "/nowhere", CommandsDir: c.dir})
	if s.Quota != nil || s.Layout == nil || !strings.Contains(s.Lacks[lustre.AskQuota], "/nowhere") {
		t.Errorf("%+v", s)
	}
}
