package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"datamove.dev/lustre"
)

// asked is a file system that has these answers. Package lustre/client is what really
// asks one.
type asked struct {
	kind lustre.Kind
	lustre.Layouts
	lustre.Quotas
	project    lustre.Project
	quota      lustre.Quota
	cluster    lustre.Cluster
	own        *lustre.Layout
	projectErr error
	clusterErr error
}

func (a *asked) Project(context.Context, int) (lustre.Project, error) { return a.project, a.projectErr }
func (a *asked) Quota(context.Context, int, lustre.Project) (lustre.Quota, error) {
	q := a.quota
	q.Project = a.project
	return q, nil
}
func (a *asked) Cluster(context.Context, int) (lustre.Cluster, error) { return a.cluster, a.clusterErr }
func (a *asked) Layout(context.Context, int) (lustre.Layout, error) {
	if a.own == nil {
		return lustre.Layout{}, lustre.ErrInherited
	}
	return *a.own, nil
}

func striped(count int, pool string) lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, StripeCount: count, FirstTarget: lustre.AnyTarget, Pool: pool}}}
}

// objects is a layout of a CephFS.
func objects(bytes int64) lustre.Layout {
	l := striped(1, "data")
	l.Components[0].ObjectBytes = bytes
	return l
}

// fine is a file system on which nothing is wrong.
func fine() *asked {
	const tib = 1 << 40
	a := &asked{kind: lustre.IsLustre, project: lustre.Project{ID: 42, Inherit: true}}
	a.quota = lustre.Quota{Limits: lustre.Limits{HardBytes: 10 * tib, HardFiles: 1e6}, UsedBytes: tib, UsedFiles: 1000, CountsFiles: true, HasSoft: true, Enforced: true, RootToo: true}
	for i := range 4 {
		a.cluster.OSTs = append(a.cluster.OSTs, lustre.Target{Kind: lustre.OST, Index: i, Name: fmt.Sprintf("lab-OST%04x", i), TotalBytes: 100 * tib, FreeBytes: 50 * tib})
	}
	a.cluster.MDTs = []lustre.Target{{Kind: lustre.MDT, Name: "lab-MDT0000", TotalBytes: tib, FreeBytes: tib, TotalFiles: 1e9, FreeFiles: 9e8}}
	a.cluster.Version, a.cluster.Default = "2.15.8", striped(4, "")
	a.cluster.Pools = map[string][]int{"flash": {0, 1}}
	return a
}

func (a *asked) look() []Finding {
	s := &lustre.System{Kind: a.kind, Name: "lab", Mount: "/lustre", Layout: a, Quota: a}
	return FileSystem(context.Background(), "/lustre/vision", s, 3)
}

// TestFileSystems: what is wrong with a file system is said with its mend, and nothing
// else is.
func TestFileSystems(t *testing.T) {
	for _, row := range []struct {
		name   string
		wrong  func(*asked)
		status Status
		check  string
		detail string
		mend   string
	}{
		{"nothing", func(*asked) {}, Pass, "servers", "lab 2.15.8: 4 OSTs, 1 MDTs, pools flash", ""},
		{"nothing", func(*asked) {}, Pass, "quota", "project 42 holds 1.00 TiB, and has 9.00 TiB and 999,000 files left", ""},
		{"nothing", func(*asked) {}, Pass, "layout", "that of the file system: 4 stripes", ""},
		{"no project", func(a *asked) { a.project = lustre.Project{} }, Pass, "quota", "in no project", ""},
		{"no limit", func(a *asked) { a.quota.Limits = lustre.Limits{} }, Pass, "quota", "has no limit", ""},
		{"no quotas", func(a *asked) { a.projectErr = fmt.Errorf("%w: off", errors.ErrUnsupported) }, Pass, "quota", "off", ""},
		{"denied", func(a *asked) { a.projectErr = fs.ErrPermission }, Warn, "quota", "permission denied", "check the rights"},
		{"quota used up", func(a *asked) { a.quota.UsedBytes = a.quota.HardBytes }, Fail, "quota", "0 B and", "ask for more"},
		{"files used up", func(a *asked) { a.quota.UsedFiles = a.quota.HardFiles }, Fail, "quota", "0 files left", "ask for more"},
		{"quota nearly used up", func(a *asked) { a.quota.UsedBytes = a.quota.HardBytes / 10 * 9 }, Warn, "quota", "1.00 TiB and", "ask for more"},
		{"over the soft limit", func(a *asked) { a.quota.BytesUntil = time.Now() }, Warn, "quota", "over its soft limit", "ask for more"},
		{"not enforced", func(a *asked) { a.quota.Enforced = false }, Warn, "quota", "not enforced", "quota_slave.enabled"},
		{"in doubt", func(a *asked) { a.quota.Doubt = "it is counted anew" }, Warn, "quota", "counted anew", "guess"},
		{"over on one OST", func(a *asked) {
			a.quota.Targets = []lustre.TargetQuota{{Target: "lab-OST0001", UsedBytes: 9, GrantedBytes: 8}}
		}, Warn, "quota", "9 B on lab-OST0001", "over more OSTs"},
		{"full in one pool", func(a *asked) {
			a.quota.Targets = []lustre.TargetQuota{{Target: "flash", Pool: true, UsedBytes: 8, GrantedBytes: 8}}
		}, Warn, "quota", "8 B in the pool flash", "another pool"},
		{"a full OST", func(a *asked) { a.cluster.OSTs[2].FreeBytes = 1 }, Warn, "OST", "lab-OST0002 is 100 % full", "make room there"},
		{"an OST that is gone", func(a *asked) { a.cluster.OSTs[2].Inactive = "inactive" }, Warn, "OST", "does not answer", "lfs check"},
		{"a degraded OST", func(a *asked) { a.cluster.OSTs[2].State = lustre.Degraded }, Warn, "OST", "degraded", "disks"},
		{"an OST that makes nothing", func(a *asked) { a.cluster.OSTs[2].State = lustre.NoCreate }, Warn, "OST", "no new objects", "no_create"},
		{"no OST with room", func(a *asked) {
			for i := range a.cluster.OSTs {
				a.cluster.OSTs[i].FreeBytes = 0
			}
		}, Warn, "servers", "no OST has room", "make room"},
		{"inodes", func(a *asked) { a.cluster.MDTs[0].FreeFiles = 1e6 }, Warn, "MDT", "100 % of its inodes", "pack small ones"},
		{"servers that do not answer", func(a *asked) { a.clusterErr = errors.New("no answer") }, Warn, "servers", "no answer", "lfs check"},
		{"one stripe", func(a *asked) { a.cluster.Default = striped(1, "") }, Warn, "layout", "one stripe however large", "layout set --advise /lustre/vision"},
		{"one stripe of its own", func(a *asked) { l := striped(1, ""); a.own = &l }, Warn, "layout", "(the folder's own)", "layout advise"},
		{"one OST needs no stripes", func(a *asked) { a.cluster.OSTs, a.cluster.Default = a.cluster.OSTs[:1], striped(1, "") }, Pass, "layout", "1 stripe", ""},
		{"objects of a CephFS", func(a *asked) { a.kind, a.cluster = lustre.IsCephFS, lustre.Cluster{Default: objects(128 << 20)} }, Pass, "layout", "that of a folder above: 1 stripe", ""},
		{"objects that OSDs do not take", func(a *asked) { a.kind, a.cluster = lustre.IsCephFS, lustre.Cluster{Default: objects(256 << 20)} }, Warn, "layout", "objects of 256 MiB", "layout set --stripe-size 4MiB /lustre/vision"},
		{"its own objects that OSDs do not take", func(a *asked) {
			l := objects(128<<20 + 64<<10)
			a.kind, a.cluster, a.own = lustre.IsCephFS, lustre.Cluster{}, &l
		}, Warn, "layout", "osd_max_object_size", "copied"},
		{"a pool that is not there", func(a *asked) { l := striped(2, "gone"); a.own = &l }, Warn, "layout", "the pool gone", "layout set"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := fine()
			row.wrong(a)
			found, named := a.look(), false
			for _, f := range found {
				named = named || f.Status == row.status && f.Check == row.check && strings.Contains(f.Detail, row.detail) && strings.Contains(f.Mend, row.mend)
				if row.status == Pass && f.Status != Pass || f.Status != Pass && f.Mend == "" {
					t.Errorf("%+v", f)
				}
			}
			if !named {
				t.Errorf("want %s %s: …%s… mend: …%s…, found:\n%s", row.status, row.check, row.detail, row.mend, text(found))
			}
		})
	}
}
