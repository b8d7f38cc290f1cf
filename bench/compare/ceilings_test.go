package compare

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// beside runs a scenario of ceilings beside peers, with cp in datamove's place.
func beside(t *testing.T, scenario string, peers ...string) Result {
	t.Helper()
	o := options(t, `for last; do before=$at; at=$last; done; exec cp -a "$before" "$at"`)
	o.Scenarios, o.Peers, o.Scale = []string{scenario}, peers, 0.01
	results, err := Compare(t.Context(), o)
	if err != nil || len(results) != 1 || results[0].NotRun != "" || !results[0].Ceiling {
		t.Fatalf("%+v, %v", results, err)
	}
	return results[0]
}

// TestCeiling: fio and dd write and read what datamove copies; fio's time is what it says, and not that of its start.
func TestCeiling(t *testing.T) {
	if testing.Short() {
		t.Skip("fio writes and reads for seconds")
	}
	if _, err := exec.LookPath("fio"); err != nil {
		t.Skip("needs fio: test/setup installs it")
	}
	r := beside(t, "ceiling-disk", "fio", "dd")
	if len(r.Scores) != 3 || len(r.Absent) > 0 {
		t.Fatalf("%+v", r)
	}
	for _, s := range r.Scores {
		if s.Failed != "" || len(s.Samples) != 3 || s.Wall.Min <= 0 || s.CPU.Min <= 0 || s.WallRatio <= 0 {
			t.Errorf("%+v", s)
		}
	}
	ours := r.Scores[0]
	if ours.Command != "datamove copy -q --reflink never SRC DST" || !strings.Contains(r.reached(), "% of fio [") {
		t.Errorf("%q\n%q", ours.Command, r.reached())
	}
}

// Stand-ins for what can not be installed here: they leave the files, and say the times, of the real ones.
const (
	standInElbencho = `[ "$1" = --version ] && { echo ' * Version: 3.0-1'; exit; }
while [ $# -gt 1 ]; do case $1 in --threads) n=$2;; --size) size=$2;; --csvfile) csv=$2;; esac; shift; done
for i in $(seq "$n"); do mkdir -p "$1/r$i/d0"; truncate -s "$size" "$1/r$i/d0/r$i-f0"; done
printf 'operation,time ms [last]\nMKDIRS,9\nWRITE,4000\nREAD,2000\n' >"$csv"`
	standInIOR = `while [ $# -gt 0 ]; do case $1 in -b) size=$2;; -o) to=$2;; esac; shift; done
truncate -s "$size" "$to.$RANK"
[ "$RANK" = 0 ] || exit 0
echo 'write 1 2 3 4 5 6 3.0 0'
echo 'read 1 2 3 4 5 6 2.0 0'`
	standInMPI = `n=$2; shift 2; RANK=0
while [ $RANK -lt $n ]; do export RANK; "$@" || exit; RANK=$((RANK+1)); done`
)

// TestCeilingOfOthers: the time is what they say, with sync -f, and what they have left is counted.
func TestCeilingOfOthers(t *testing.T) {
	inPath(t, map[string]string{"elbencho": standInElbencho, "ior": standInIOR, "mpirun": standInMPI})
	r := beside(t, "ceiling-disk", "elbencho", "ior")
	for i, least := range []time.Duration{0, 6 * time.Second, 5 * time.Second} {
		s := r.Scores[i]
		if s.Failed != "" || len(s.Samples) != 3 || s.Wall.Min < least {
			t.Errorf("%+v", s)
		}
	}
	if r.Scores[1].Version != "3.0-1" || !strings.HasPrefix(r.Scores[2].Command, "mpirun -np ") {
		t.Errorf("%+v", r.Scores)
	}

	inPath(t, map[string]string{"elbencho": strings.Replace(standInElbencho, `seq "$n"`, "seq 2", 1)})
	if s := beside(t, "ceiling-disk", "elbencho").Scores[1]; !strings.Contains(s.Failed, "the target has 8388608 bytes, the source") {
		t.Errorf("%+v", s)
	}
	inPath(t, map[string]string{"elbencho": strings.Replace(standInElbencho, "READ,2000", "", 1)})
	if s := beside(t, "ceiling-disk", "elbencho").Scores[1]; !strings.Contains(s.Failed, "no lines of WRITE and READ") {
		t.Errorf("%+v", s)
	}
}

// TestCeilingOfStore: warp works for a time in a bucket that is there, and is compared by its rate, and not by its CPU.
func TestCeilingOfStore(t *testing.T) {
	peers(t, "s5cmd")
	if _, err := exec.LookPath("versitygw"); err != nil {
		t.Skip("needs versitygw: test/setup installs it")
	}
	put := `[ "$1" = --version ] && { echo 'warp version 1.3.1'; exit; }
while [ $# -gt 0 ]; do case $1 in --host) host=$2;; --bucket) bucket=$2;; esac; shift; done
export AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID="$WARP_ACCESS_KEY" AWS_SECRET_ACCESS_KEY="$WARP_SECRET_KEY"
s5cmd --endpoint-url "http://$host" ls | grep -q "s3://$bucket$" || { echo no bucket >&2; exit 1; }
printf 'Report: PUT. Concurrency: 32.\n * Average: 8.00 MiB/s, 2.00 obj/s\n'`
	inPath(t, map[string]string{"warp": put})
	o := options(t, `exec s5cmd --endpoint-url "$AWS_ENDPOINT_URL_S3" --log error cp "$3/" "$4/"`)
	o.Scenarios, o.Peers, o.Runs, o.Scale = []string{"ceiling-s3-up"}, []string{"warp"}, 2, 0.004
	results, err := Compare(t.Context(), o)
	if err != nil || results[0].NotRun != "" {
		t.Fatalf("%+v, %v", results, err)
	}
	ours, warp := results[0].Scores[0], results[0].Scores[1]
	if ours.Failed != "" || warp.Failed != "" || warp.Wall.Min != 2*time.Second || warp.Wall.Max != 2*time.Second || warp.CPU.Max != 0 || warp.CPURatio != 0 || warp.WallRatio <= 0 {
		t.Errorf("%+v\n%+v", ours, warp)
	}
}

// TestEvict: what was in the page cache is not, also what was dirty.
func TestEvict(t *testing.T) {
	dir := t.TempDir()
	var st unix.Statfs_t
	must.Do(t, unix.Statfs(dir, &st))
	if st.Type == unix.TMPFS_MAGIC {
		t.Skip("needs a folder for temporary files that is on a disk")
	}
	must.Do(t, (dataset{files: 3, dirs: 1, bytes: 1 << 20}).make(filepath.Join(dir, "tree")))
	name := filepath.Join(dir, "tree", "d0000", "f0000001")
	if cached(t, name) == 0 {
		t.Fatal("what was just written is not in the page cache")
	}
	must.Do(t, evict(filepath.Join(dir, "tree")))
	if n := cached(t, name); n > 0 {
		t.Errorf("%d of its pages still are in the page cache", n)
	}
	if err := evict(filepath.Join(dir, "nothing")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// cached is how many pages of a file are in the page cache. To read with RWF_NOWAIT would not tell: a kernel that finds
// no page there begins to read ahead, and a quick disk has it there before it looks again.
func cached(t *testing.T, name string) uint64 {
	t.Helper()
	f := must.Get(os.Open(name))(t)
	defer f.Close()
	var now unix.Cachestat_t
	switch err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &now, 0); {
	case err == unix.ENOSYS:
		t.Skip("needs cachestat(2), which Linux has since 6.5")
	case err != nil:
		t.Fatal(err)
	}
	return now.Cache
}
