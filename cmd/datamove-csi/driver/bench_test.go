package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/test/must"
)

// BenchmarkPublish publishes and unpublishes on a node where 200 other volumes are mounted: how long a call takes at the 50th and
// 99th of a hundred, and what the driver and its processes hold in memory, in MiB.
func BenchmarkPublish(b *testing.B) {
	n := newNode(b)
	n.begin()
	var ids []string
	for i := range 200 {
		id := n.created("scratch", "pvc-"+strconv.Itoa(i))
		ids = append(ids, id)
		if _, err := n.NodePublishVolume(b.Context(), n.publication(id, "there-"+strconv.Itoa(i))); err != nil {
			b.Fatal(err)
		}
	}
	var publish, unpublish []time.Duration
	for b.Loop() {
		q := n.publication(ids[len(publish)%len(ids)], "pod")
		began := time.Now()
		_, err := n.NodePublishVolume(b.Context(), q)
		publish = append(publish, time.Since(began))
		must.Do(b, err)
		began = time.Now()
		_, err = n.NodeUnpublishVolume(b.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: q.GetVolumeId(), TargetPath: q.GetTargetPath()})
		unpublish = append(unpublish, time.Since(began))
		must.Do(b, err)
	}
	for name, all := range map[string][]time.Duration{"publish": publish, "unpublish": unpublish} {
		slices.Sort(all)
		for _, p := range []int{50, 99} {
			b.ReportMetric(float64(all[len(all)*p/100].Microseconds())/1000, fmt.Sprintf("ms-%s-p%d", name, p))
		}
	}
	b.ReportMetric(memory(b, n.run.PID()), "MiB")
}

// memory is what a process and its children hold, in MiB: pages that they share, as the program itself, are counted once.
func memory(b *testing.B, pid int) (mib float64) {
	b.Helper()
	dirs := must.Get(filepath.Glob("/proc/[0-9]*"))(b)
	field := func(dir, file, name string) float64 {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return 0 // it ended meanwhile
		}
		_, rest, _ := strings.Cut("\n"+string(text), "\n"+name+":")
		value, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
		return n
	}
	for _, dir := range dirs {
		if dir == "/proc/"+strconv.Itoa(pid) || int(field(dir, "status", "PPid")) == pid {
			mib += field(dir, "smaps_rollup", "Pss") / 1024
		}
	}
	return mib
}
