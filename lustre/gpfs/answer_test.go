package gpfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// serve is the GUI of a world. A job has several looks to wait for, and only the last one finds
// something changed; lists come in pages of one entry; what is read first is refused first.
// It is more lenient than a real one in that it knows no users but ours (server_test.go), in that
// it has collected what it tells (TestGUIBehind, TestQuotaSeenLate), and in that its file system
// is never full: limits are set and told here, and nothing is written.
func serve(dir string) http.HandlerFunc {
	g := &playedGUI{dir: dir, refused: map[string]bool{}}
	return func(rw http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/scalemgmt/v2/"), "/")
		switch {
		case parts[0] == "jobs":
			g.tell(rw, r)
		case r.Method != http.MethodGet:
			if w, err := loadWorld(dir); err == nil && len(parts) > 3 {
				if _, err := w.find(parts[3]); err != nil { // told at once: DeleteFileset of rest_v2.go, IBM/ibm-spectrum-scale-csi 2.x
					say(400, `{"status":{"code":400,"message":"Invalid value in 'fsetName'"}}`)(rw, r)
					return
				}
			}
			var body map[string]string
			_ = json.NewDecoder(r.Body).Decode(&body)
			if force := r.URL.Query().Get("force"); force != "" {
				body = map[string]string{"force": force}
			}
			g.jobs = append(g.jobs, playedJob{method: r.Method, parts: parts, body: body, status: "RUNNING"})
			g.job(rw, 202, len(g.jobs)-1)
		case !g.refused[r.URL.Path]:
			g.refused[r.URL.Path] = true
			rw.Header().Set("Retry-After", "3")
			say([]int{429, 503}[len(g.refused)%2], `{}`)(rw, r)
		default:
			g.read(rw, r, parts)
		}
	}
}

// playedGUI is the memory of the GUI of a world.
type playedGUI struct {
	dir     string
	mu      sync.Mutex
	jobs    []playedJob     // guarded by mu, as all below
	refused map[string]bool // once, by path
}

type playedJob struct {
	method string
	parts  []string
	body   map[string]string
	looks  int
	status string
	stderr []string
}

// looks is how often a job is asked for before it is done.
const looks = 3

// tell is of a job: a look, or its end before anything was done.
func (g *playedGUI) tell(rw http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(path.Base(r.URL.Path))
	if n -= firstJob; err != nil || n < 0 || n >= len(g.jobs) {
		say(404, `{}`)(rw, r)
		return
	}
	j := &g.jobs[n]
	switch j.looks++; {
	case j.status != "RUNNING":
	case r.Method == http.MethodDelete:
		j.status = "CANCELLED"
	case j.looks == looks:
		w, err := loadWorld(g.dir)
		if err == nil {
			err = errors.Join(w.do(j.method, j.parts, j.body), w.keep(g.dir))
		}
		if j.status = "COMPLETED"; err != nil {
			j.status, j.stderr = "FAILED", []string{err.Error()}
		}
	}
	g.job(rw, 200, n)
}

// firstJob is the number of the first job.
const firstJob = 2000000011591

func (g *playedGUI) job(rw http.ResponseWriter, status, n int) {
	job := map[string]any{"jobId": firstJob + n, "status": g.jobs[n].status}
	if job["status"] != "RUNNING" {
		job["result"] = map[string]any{"stderr": append([]string{}, g.jobs[n].stderr...)}
	}
	text, _ := json.Marshal(map[string]any{"jobs": []any{job}, "status": map[string]any{"code": status, "message": ""}})
	say(status, string(text))(rw, nil)
}

// read answers what only asks: lists by their filter, and one entry for a page.
func (g *playedGUI) read(rw http.ResponseWriter, r *http.Request, parts []string) {
	w, err := loadWorld(g.dir)
	if err != nil {
		say(500, err.Error())(rw, r)
		return
	}
	status, reply := w.reply(parts)
	for _, name := range slices.Collect(maps.Keys(reply)) {
		list := reply[name].([]any)
		if _, wanted, ok := strings.Cut(r.URL.Query().Get("filter"), "objectName="); ok {
			list = slices.DeleteFunc(list, func(e any) bool { return e.(map[string]any)["objectName"] != wanted })
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("lastId"))
		if list = list[min(from, len(list)):]; len(list) > 1 {
			list = list[:1]
			reply["paging"] = map[string]any{"next": fmt.Sprintf("https://localhost:443%s?lastId=%d", r.URL.Path, from+1)}
		}
		reply[name] = list
	}
	reply["status"] = map[string]any{"code": status, "message": "said"}
	if status == 400 {
		reply["status"] = map[string]any{"code": 400, "message": "Invalid value in 'filesetName'"}
	}
	text, _ := json.Marshal(reply)
	say(status, string(text))(rw, r)
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
		return w.unlink(parts[3], body["force"] == "True")
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
		if len(list) == 0 {
			return 400, map[string]any{} // testdata/rest/bad-request.json
		}
		return 200, map[string]any{"filesets": list}
	case "quotas":
		for name, l := range w.Quotas {
			f, _ := w.find(name)
			list = append(list, map[string]any{"quotaType": "USR", "objectName": name}) // a user of that name
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
