package gpfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// reads are the calls that read, their reply, and the fields of it that they need.
var reads = []struct {
	name   string
	file   string
	ask    func(*testing.T, *gui) (any, error)
	want   any
	needed []string
}{
	{"file system", "filesystem.json",
		func(t *testing.T, g *gui) (any, error) { return g.FileSystem(t.Context(), "fs1") },
		FileSystem{Mount: "/gpfs/fs1", FilesetQuotas: true},
		[]string{"filesystems", "filesystems[0].name", "filesystems[0].mount", "filesystems[0].mount.mountPoint",
			"filesystems[0].quota", "filesystems[0].quota.quotasEnforced"}},
	{"fileset", "fileset.json",
		func(t *testing.T, g *gui) (any, error) { return g.Fileset(t.Context(), "fs1", "vision") },
		Fileset{Name: "vision", ID: 1, Junction: "/gpfs/fs1/vision", RootInode: 524291, InodeSpace: 1, Independent: true},
		[]string{"filesets", "filesets[0].filesetName", "filesets[0].config", "filesets[0].config.path",
			"filesets[0].config.id", "filesets[0].config.inodeSpace", "filesets[0].config.isInodeSpaceOwner", "filesets[0].config.status", "filesets[0].config.rootInode"}},
	{"pools", "pools.json",
		func(t *testing.T, g *gui) (any, error) { return g.Pools(t.Context(), "fs1") },
		[]Pool{{"system", 0, 0}, {"data", 3064453922 << 10, 529111449 << 10}},
		[]string{"storagePool", "storagePool[0].storagePoolName", "storagePool[0].totalDataInKB", "storagePool[0].freeDataInKB",
			"storagePool[1].storagePoolName", "storagePool[1].totalDataInKB", "storagePool[1].freeDataInKB"}},
	{"quota", "quotas.json",
		func(t *testing.T, g *gui) (any, error) {
			found, q, err := g.FilesetQuota(t.Context(), "fs1", "vision")
			if err == nil && !found {
				err = errors.New("it was not found")
			}
			if !q.BytesUntil.IsZero() {
				left := time.Until(q.BytesUntil)
				if left < 5*24*time.Hour || left > 6*24*time.Hour {
					err = errors.Join(err, fmt.Errorf("grace of %v", left))
				}
				q.BytesUntil = time.Time{}
			}
			return q, err
		},
		visionQuota,
		[]string{"quotas", "quotas[0].quotaType", "quotas[1].quotaType", "quotas[1].objectName", "quotas[1].objectId",
			"quotas[1].blockUsage", "quotas[1].blockQuota", "quotas[1].blockLimit", "quotas[1].blockInDoubt", "quotas[1].blockGrace",
			"quotas[1].filesUsage", "quotas[1].filesQuota", "quotas[1].filesLimit", "quotas[1].filesInDoubt", "quotas[1].filesGrace"}},
}

// visionQuota is the quota of the fixtures: what is in doubt counts.
var visionQuota = lustre.Quota{
	Project:   lustre.Project{ID: 1, Name: "vision", Inherit: true},
	Limits:    lustre.Limits{SoftBytes: 256 << 20, HardBytes: 512 << 20, SoftFiles: 8000, HardFiles: 10000},
	UsedBytes: (345088 + 4096) << 10, UsedFiles: 1270, CountsFiles: true, HasSoft: true,
}

// always are fields of every reply.
var always = []string{"status", "status.code", "status.message"}

func TestReplies(t *testing.T) {
	for _, c := range reads {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.ask(t, newGUI(t, say(200, fixture(t, "rest/"+c.file))))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("it is %+v, %v, and not %+v", got, err, c.want)
			}
		})
	}
}

// TestReplyFields: whatever one field of a reply is instead, what we need is missed by its
// name, and what we do not need changes nothing.
func TestReplyFields(t *testing.T) {
	for _, c := range reads {
		t.Run(c.name, func(t *testing.T) {
			needed := map[string]bool{}
			for _, path := range append(c.needed, always...) {
				needed[path] = true
			}
			body, seen := "", map[string]bool{}
			g := newGUI(t, func(w http.ResponseWriter, r *http.Request) { say(200, body)(w, r) })
			g.keepAlive(t)
			for _, m := range mutations(t, fixture(t, "rest/"+c.file)) {
				body = m.body
				seen[m.path] = true
				got, err := c.ask(t, g)
				switch {
				case needed[m.path] && (!errors.Is(err, ErrReply) || !strings.Contains(err.Error(), m.path)):
					t.Errorf("%s %s: %+v, %v", m.path, m.how, got, err)
				case !needed[m.path] && (err != nil || !reflect.DeepEqual(got, c.want)):
					t.Errorf("%s %s, which is not needed: %+v, %v", m.path, m.how, got, err)
				}
			}
			for path := range needed {
				if !seen[path] {
					t.Errorf("the reply has no %s", path)
				}
			}
		})
	}
}

// TestAnotherFileSystem: what is told of one is not taken for another.
func TestAnotherFileSystem(t *testing.T) {
	if got, err := newGUI(t, say(200, fixture(t, "rest/filesystem.json"))).FileSystem(t.Context(), "fs2"); !errors.Is(err, ErrReply) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPoolOfMetadata: a pool that says nothing of data has none, if it is one of metadata.
func TestPoolOfMetadata(t *testing.T) {
	meta := strings.Replace(fixture(t, "rest/pools.json"), `"totalDataInKB": 0, "freeDataInKB": 0, `, "", 1)
	got, err := newGUI(t, say(200, meta)).Pools(t.Context(), "fs1")
	if err != nil || len(got) != 2 || got[0] != (Pool{Name: "system"}) {
		t.Errorf("%+v, %v", got, err)
	}
	silent := strings.Replace(meta, `"totalMetaInKB": 16777216, `, "", 1)
	if got, err := newGUI(t, say(200, silent)).Pools(t.Context(), "fs1"); !errors.Is(err, ErrReply) {
		t.Errorf("a pool that says nothing: %+v, %v", got, err)
	}
}

// TestUnlinked: a fileset that is not linked has a path that is none, or no path.
func TestUnlinked(t *testing.T) {
	text := fixture(t, "rest/filesets-3.json")
	for _, reply := range []string{text, strings.Replace(text, `"path": "--", `, "", 1), strings.Replace(text, `"--"`, `""`, 1), strings.Replace(text, `"rootInode": 1048579, `, "", 1)} {
		got, err := newGUI(t, say(200, reply)).Filesets(t.Context(), "fs1")
		if want := []Fileset{{Name: "old-runs", ID: 7, InodeSpace: 2, Independent: true}}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestCountedAnew: while quotas are counted, what is in doubt can be negative, and so can
// what is used: limits hold all the same.
func TestCountedAnew(t *testing.T) {
	for _, c := range []struct {
		field, value string
		bytes        int64
		doubt        bool
	}{
		{`"blockInDoubt": 4096`, `"blockInDoubt": -4096`, 345088 << 10, false},
		{`"blockUsage": 345088`, `"blockUsage": -32`, 4096 << 10, true},
	} {
		found, q, err := newGUI(t, say(200, strings.Replace(fixture(t, "rest/quotas.json"), c.field, c.value, 1))).FilesetQuota(t.Context(), "fs1", "vision")
		if err != nil || !found || q.UsedBytes != c.bytes || (q.Doubt != "") != c.doubt || q.HardBytes != 512<<20 {
			t.Errorf("%s: %+v, %v", c.value, q, err)
		}
		commands := commands(t).here()
		number := func(s string) string { return ":" + s[strings.Index(s, " ")+1:] + ":" }
		commands.play(t, "mmlsquota", played{Out: strings.Replace(fixture(t, "commands/mmlsquota.txt"), number(c.field), number(c.value), 1)})
		if found, told, err := commands.FilesetQuota(t.Context(), "fs1", "vision"); err != nil || !found || told.UsedBytes != q.UsedBytes || told.Doubt != q.Doubt {
			t.Errorf("%s by a command: %+v, %v", c.value, told, err)
		}
	}
}

// mutation is a reply with one field changed.
type mutation struct{ path, how, body string }

// mutations changes every field of a reply, one at a time.
func mutations(t *testing.T, text string) (all []mutation) {
	t.Helper()
	decode := func() (v any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		must.Do(t, d.Decode(&v))
		return v
	}
	for _, path := range paths("", decode()) {
		for _, how := range []string{"is missing", "is null", "is an object", "is of another type", "is a list of lists", "is a number too large"} {
			tree := decode()
			if !mutate(tree, path, how) {
				continue
			}
			body := must.Get(json.Marshal(tree))(t)
			all = append(all, mutation{path, how, string(body)})
		}
	}
	return all
}

// paths are those of all fields.
func paths(at string, v any) (all []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			path := strings.TrimPrefix(at+"."+name, ".")
			all = append(append(all, path), paths(path, sub)...)
		}
	case []any:
		for i, sub := range v {
			all = append(all, paths(fmt.Sprintf("%s[%d]", at, i), sub)...)
		}
	}
	return all
}

func mutate(tree any, path, how string) bool {
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		tree = step(tree, part)
	}
	fields, name := tree.(map[string]any), parts[len(parts)-1]
	old := fields[name]
	switch how {
	case "is missing":
		delete(fields, name)
	case "is null":
		fields[name] = nil
	case "is an object":
		if _, same := old.(map[string]any); same {
			return false
		}
		fields[name] = map[string]any{"x": 1}
	case "is a list of lists":
		fields[name] = []any{[]any{}}
	case "is a number too large":
		if _, number := old.(json.Number); !number {
			return false
		}
		fields[name] = json.Number("99999999999999999999999")
	case "is of another type":
		switch old := old.(type) {
		case json.Number:
			fields[name] = old.String()
		case string:
			fields[name] = 7
		case bool:
			fields[name] = "true"
		default:
			fields[name] = "text"
		}
	}
	return true
}

func step(tree any, part string) any {
	name, index, indexed := strings.Cut(part, "[")
	tree = tree.(map[string]any)[name]
	if indexed {
		var i int
		_, _ = fmt.Sscanf(index, "%d]", &i)
		tree = tree.([]any)[i]
	}
	return tree
}
