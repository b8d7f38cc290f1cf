package telemetry

import (
	"bytes"
	"path"
	"strings"
	"testing"
)

// testdata/node is a node with a new Lustre, an old one that is mounted twice, and an
// NFS mount with a tmpfs in it.
func TestClientCaches(t *testing.T) {
	m := New(Options{Bounds: Bounds{Tiers: []string{"new", "old", "nfs", "tmpfs", "disk"}}, Root: "testdata/node"})
	defer m.Sample(func(s *Sample) {
		s.ClientCaches(map[string]string{"new": "/lustre/project/", "old": "/lustre old", "nfs": "/mnt/nfs/a/b",
			"tmpfs": "/mnt/nfs/scratch/x", "disk": "/mnt/nfs-local"})
	})()
	got := scrape(t, m)
	want(t, got, 120000, "datamove_client_cache_hits_total", "tier", "new")
	want(t, got, 2880, "datamove_client_cache_misses_total", "tier", "new")
	want(t, got, 503316480, "datamove_client_read_bytes_total", "tier", "new")
	want(t, got, 353601375, "datamove_client_cache_hits_total", "tier", "old")
	want(t, got, 2*4194304, "datamove_client_read_bytes_total", "tier", "old")
	want(t, got, 1207641230, "datamove_client_read_bytes_total", "tier", "nfs")
	want(t, got, 210214218, "datamove_client_fetched_bytes_total", "tier", "nfs")
	for name, tiers := range map[string]int{"hits": 2, "misses": 2} {
		if n := len(got["datamove_client_cache_"+name+"_total"].Metric); n != tiers {
			t.Errorf("%d tiers tell %s", n, name)
		}
	}
	if n := len(got["datamove_client_fetched_bytes_total"].Metric); n != 1 {
		t.Errorf("%d tiers tell what they fetched", n)
	}
}

// Where nothing is told there is no zero, either.
func TestNoCachesToTell(t *testing.T) {
	m := New(Options{Bounds: site, Root: t.TempDir()})
	defer m.Sample(func(s *Sample) { s.ClientCaches(map[string]string{"warm": "/lustre"}) })()
	if got := scrape(t, m); got["datamove_client_cache_hits_total"] != nil || got["datamove_client_read_bytes_total"] != nil {
		t.Error("a node without mounts tells of caches")
	}
}

func TestMountsThatLie(t *testing.T) {
	const nfs = "device h:/x mounted on /n with fstype nfs4 statvers=1.1\n"
	for _, row := range []struct {
		name, text string
		mounts     int
		told       bool
	}{
		{"nothing", "", 0, false},
		{"too few words", "device h:/x mounted on /n\n", 0, false},
		{"other words", "device h:/x hung up on /n with fstype nfs4\n", 0, false},
		{"counters before a mount", "\tbytes: 1 2 3 4 5 6 7 8\n" + nfs, 1, false},
		{"counters of another file system", "device h:/x mounted on /n with fstype ext4\n\tbytes: 1 2 3 4 5 6 7 8\n", 1, false},
		{"too few counters", nfs + "\tbytes: 1 2 3\n", 1, false},
		{"no counters", nfs + "\tbytes: a b c d e f g h\n", 1, false},
		{"less than nothing", nfs + "\tbytes: -1 2 3 4 5 6 7 8\n", 1, false},
		{"more than fits", nfs + "\tbytes: 18446744073709551615 0 0 0 5 0 0 0\n", 1, false},
		{"a line without end", nfs + "\tbytes: 1 2 3 4 5 6 7 8\n" + strings.Repeat("x", 2*maxStatsLine), 1, true},
		{"as it should be", nfs + "\tbytes: 1 2 3 4 5 6 7 8\n", 1, true},
	} {
		mounts := parseMountstats(strings.NewReader(row.text))
		if len(mounts) != row.mounts || len(mounts) > 0 && (mounts[0].cache.read != nil) != row.told {
			t.Errorf("%s: %+v", row.name, mounts)
		}
	}
	endless := strings.NewReader(strings.Repeat(nfs, 2*maxStatsBytes/len(nfs)))
	if n := len(parseMountstats(endless)); n > maxStatsBytes/len(nfs) {
		t.Errorf("%d mounts", n)
	}
}

func TestFsname(t *testing.T) {
	for _, row := range []struct{ source, name string }{
		{"10.0.0.1@tcp:/lab", "lab"},
		{"10.0.0.1@tcp:10.0.0.2@tcp,10.1.0.2@o2ib:/lab/sub/dir", "lab"},
		{"/dev/sdb", ""}, // a server's own target
		{"10.0.0.1@tcp:/", ""},
		{"10.0.0.1@tcp:/*", ""},
		{"10.0.0.1@tcp:/..", ""},
		{"10.0.0.1@tcp:/muchtoolong", ""},
	} {
		if name, ok := fsname(row.source); ok != (row.name != "") || ok && name != row.name {
			t.Errorf("%s: %q, %v", row.source, name, ok)
		}
	}
}

func FuzzMountstats(f *testing.F) {
	f.Add([]byte("device h:/x\\040y mounted on /n\\134 with fstype nfs statvers=1.1\n\tbytes: 1 2 3 4 5 6 7 8\n"))
	f.Add([]byte("device 10.0.0.1@tcp:/lab mounted on /l with fstype lustre\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		mounts := parseMountstats(bytes.NewReader(text))
		if len(mounts) > bytes.Count(text, []byte("device")) {
			t.Errorf("%d mounts", len(mounts))
		}
		for _, m := range mounts {
			if m.cache.fetched != nil && m.cache.read == nil {
				t.Errorf("half a cache: %+v", m)
			}
			if _, ok := under([]mounted{m}, m.dir+"/x"); !ok && path.IsAbs(m.dir) && path.Clean(m.dir) == m.dir {
				t.Errorf("nothing is under %q", m.dir)
			}
		}
	})
}

func FuzzLustre(f *testing.F) {
	f.Add([]byte("hits 12 samples [pages]\nmisses 4 samples [pages] 1 1 4 4\nread_bytes 1 samples [bytes] 1 2 3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var once, twice cacheStats
		parseLustre(bytes.NewReader(text), &once)
		parseLustre(bytes.NewReader(text), &twice)
		parseLustre(bytes.NewReader(text), &twice)
		for _, pair := range [][2]*uint64{{once.hits, twice.hits}, {once.misses, twice.misses}, {once.read, twice.read}} {
			if (pair[0] == nil) != (pair[1] == nil) || pair[0] != nil && *pair[1] != 2**pair[0] {
				t.Errorf("read twice is not twice: %v", pair)
			}
		}
	})
}
