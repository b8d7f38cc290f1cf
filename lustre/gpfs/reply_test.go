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
)

// reads are the calls that read, their reply, and the fields of it that they need.
var reads = []struct {
	name   string
	file   string
	ask    func(*testing.T, *gui) (any, error)
	want   any
	needed []string
}{
	{"health", "health.json",
		func(t *testing.T, g *gui) (any, error) { return g.Health(t.Context(), ":all:") },
		[]Health{{"n1.example.org", "FILESYSTEM", "fs1", "HEALTHY"}, {"n1.example.org", "DISK", "nsd2", "DEGRADED"}},
		[]string{"states", "states[0].reportingNode", "states[0].component", "states[0].entityName", "states[0].state",
			"states[1].reportingNode", "states[1].component", "states[1].entityName", "states[1].state"}},
	{"owner", "owner.json",
		func(t *testing.T, g *gui) (any, error) { return g.Owner(t.Context(), "fs1", "vision/part-0007") },
		Owner{"ada", "vision", 1001, 2001},
		[]string{"owner", "owner.user", "owner.group", "owner.uid", "owner.gid"}},
	{"file system", "filesystem.json",
		func(t *testing.T, g *gui) (any, error) { return g.FileSystem(t.Context(), "fs1") },
		FileSystem{Name: "fs1", Mount: "/gpfs/fs1", BlockBytes: 4 << 20, Copies: 1, MaxCopies: 2, FilesetQuotas: true, FilesetStatfs: true},
		fileSystemFields},
	{"file systems", "filesystem.json",
		func(t *testing.T, g *gui) (any, error) { return g.FileSystems(t.Context()) },
		[]FileSystem{{Name: "fs1", Mount: "/gpfs/fs1", BlockBytes: 4 << 20, Copies: 1, MaxCopies: 2, FilesetQuotas: true, FilesetStatfs: true}},
		fileSystemFields},
	{"fileset", "fileset.json",
		func(t *testing.T, g *gui) (any, error) { return g.Fileset(t.Context(), "fs1", "vision") },
		Fileset{Name: "vision", ID: 1, Junction: "/gpfs/fs1/vision", InodeSpace: 1, RootInode: 524291},
		[]string{"filesets", "filesets[0].filesetName", "filesets[0].config", "filesets[0].config.path", "filesets[0].config.inodeSpace",
			"filesets[0].config.id", "filesets[0].config.status", "filesets[0].config.rootInode"}},
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
	{"policy", "owner.json", // any reply will do
		func(t *testing.T, g *gui) (any, error) { return g.HasPolicy(t.Context(), "fs1", "datamove") }, true, nil},
}

var fileSystemFields = []string{"filesystems", "filesystems[0].name", "filesystems[0].mount", "filesystems[0].mount.mountPoint",
	"filesystems[0].block", "filesystems[0].block.blockSize", "filesystems[0].replication", "filesystems[0].replication.defaultDataReplicas",
	"filesystems[0].replication.maxDataReplicas", "filesystems[0].quota", "filesystems[0].quota.quotasEnforced", "filesystems[0].quota.filesetdfEnabled"}

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

func TestCluster(t *testing.T) {
	serve := func(cluster, info string) *gui {
		return newGUI(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/info") {
				say(200, info)(w, r)
				return
			}
			say(200, cluster)(w, r)
		})
	}
	cluster, info := fixture(t, "rest/cluster.json"), fixture(t, "rest/info.json")
	got, err := serve(cluster, info).Cluster(t.Context())
	if want := (Cluster{317908494245422510, "lab.example.org", "5.2.3-0_build17"}); err != nil || got != want {
		t.Errorf("it is %+v, %v", got, err)
	}
	for _, path := range []string{"cluster.clusterSummary.clusterId", "cluster.clusterSummary.clusterName", "info.serverVersion"} {
		seen := 0
		for _, m := range append(mutations(t, cluster), mutations(t, info)...) {
			if m.path != path {
				continue
			}
			seen++
			g := serve(m.body, info)
			if strings.HasPrefix(path, "info") {
				g = serve(cluster, m.body)
			}
			if _, err := g.Cluster(t.Context()); !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s %s: %v", path, m.how, err)
			}
		}
		if seen < 4 {
			t.Errorf("%s was not in the fixture", path)
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
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, path := range paths("", decode()) {
		for _, how := range []string{"is missing", "is null", "is an object", "is of another type", "is a list of lists", "is a number too large"} {
			tree := decode()
			if !mutate(tree, path, how) {
				continue
			}
			body, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
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
