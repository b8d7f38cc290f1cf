package csi

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/csi/kube"
	"datamove.dev/csi/metrics"
	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// scraped are the lines that Prometheus gets.
func (r *kubelet) scraped() string {
	r.Helper()
	reply := httptest.NewRecorder()
	r.driver.Metrics.Handler().ServeHTTP(reply, httptest.NewRequest("GET", "/metrics", nil))
	return reply.Body.String()
}

// TestWatch: a file system that goes and a volume that was replaced are seen, and told once; and that they are back.
//
//safety:5/volumes with csi/volumestore TestNotOurs
func TestWatch(t *testing.T) {
	r := rigged(t)
	k := &told{}
	r.driver.Cluster = k
	v := r.created(volume.Project, "vision", "home", 20*mib)
	k.claims = []kube.Claim{{Claim: volume.Claim{Namespace: "vision", Name: "home"}, Volume: v.GetVolumeId()}}
	w := &watch{Driver: r.driver, systems: map[string]string{}, volumes: map[string]string{}}
	look := func(what string, events ...string) {
		t.Helper()
		k.events = nil
		for range 2 {
			w.lookAtSystems(t.Context())
			w.countVolumes(t.Context())
			must.Do(t, w.lookAtVolumes(t.Context()))
		}
		if !slices.EqualFunc(k.events, events, strings.HasPrefix) {
			t.Errorf("%s: %q", what, k.events)
		}
	}
	sees := func(lines ...string) {
		t.Helper()
		for _, line := range lines {
			if got := r.scraped(); !strings.Contains(got, line) {
				t.Errorf("there is no %s in\n%s", line, got)
			}
		}
	}
	look("all is well")
	sees(`datamove_csi_file_system_up{file_system="nvme"} 1`, `datamove_csi_volumes{file_system="lab"} 1`, `datamove_csi_promised_bytes{file_system="lab"} 2.097152e+07`,
		`datamove_csi_calls_total{code="OK",method="CreateVolume"} 1`, `datamove_csi_hanging_processes{file_system="lab"} 0`)

	id := must.Get(volume.ParseID(v.GetVolumeId()))(t)
	data := filepath.Join(r.root, "k8s/volumes", id.Key, "data")
	must.Do(t, os.Rename(data, data+".away"))
	must.Do(t, os.Mkdir(data, 0o755))
	look("a volume was replaced", "vision/home DirectoryReplaced! ")
	sees(`datamove_csi_ill_volumes{reason="DirectoryReplaced"} 1`)
	must.Do(t, os.Remove(data))
	must.Do(t, os.Rename(data+".away", data))
	look("it is back", "vision/home VolumeHealthy ")
	if got := r.scraped(); strings.Contains(got, "datamove_csi_ill_volumes{") {
		t.Error("it is counted still")
	}

	f := r.driver.Config.FileSystems["nvme"]
	was := f.Root
	f.Root, k.events = filepath.Join(t.TempDir(), "none"), nil
	r.driver.Config.FileSystems["nvme"] = f
	w.lookAtSystems(t.Context())
	w.lookAtSystems(t.Context())
	if !slices.EqualFunc(k.events, []string{"/n1 FileSystemDoesNotAnswer! "}, strings.HasPrefix) {
		t.Errorf("%q", k.events)
	}
	sees(`datamove_csi_file_system_up{file_system="nvme"} 0`)
	f.Root = was
	r.driver.Config.FileSystems["nvme"] = f
	look("it answers again", "/n1 FileSystemHealthy ")
}

// TestWhoCounts: records of volumes are read by one driver each, those of a shared file system by the controller, and those of scratch
// by its node. All look how full it is.
//
//safety:8 a thousand nodes and thousands of volumes: each record is read by one driver, and a scan that takes long is no file system that hangs
func TestWhoCounts(t *testing.T) {
	r := rigged(t)
	for _, row := range []struct {
		mode          Mode
		counts, looks []string
	}{
		{All, []string{"lab", "nvme"}, []string{"lab", "nvme"}},
		{Controller, []string{"lab"}, []string{"lab", "nvme"}},
		{Node, []string{"nvme"}, []string{"lab", "nvme"}},
	} {
		o := r.driver.Options
		o.Mode, o.Metrics = row.mode, nil
		r.driver = New(o)
		w := &watch{Driver: r.driver, systems: map[string]string{}, volumes: map[string]string{}}
		w.lookAtSystems(t.Context())
		w.countVolumes(t.Context())
		got := r.scraped()
		for _, name := range []string{"lab", "nvme"} {
			if counts := strings.Contains(got, `datamove_csi_volumes{file_system="`+name+`"}`); counts != slices.Contains(row.counts, name) {
				t.Errorf("%s counts the volumes of %s: %t", row.mode, name, counts)
			}
			if looks := strings.Contains(got, `datamove_csi_file_system_free_bytes{file_system="`+name+`"}`); looks != slices.Contains(row.looks, name) {
				t.Errorf("%s looks at %s: %t", row.mode, name, looks)
			}
		}
	}
}

// TestMetricsTable: what is scraped is what the table says.
func TestMetricsTable(t *testing.T) {
	r := rigged(t)
	r.created(volume.Project, "vision", "home", 20*mib)
	w := &watch{Driver: r.driver, systems: map[string]string{}, volumes: map[string]string{}}
	w.lookAtSystems(t.Context())
	w.countVolumes(t.Context())
	r.driver.Metrics.Ill(map[string]int{"X": 1})
	got := r.scraped()
	for _, row := range metrics.Table {
		if !strings.Contains(got, "# TYPE "+row.Name+" "+row.Type+"\n") || !strings.Contains(got, "# HELP "+row.Name+" "+row.Meaning+"\n") {
			t.Errorf("%s is not scraped", row.Name)
		}
	}
	for line := range strings.Lines(got) {
		name, ours := strings.CutPrefix(line, "# TYPE datamove_csi_")
		if ours && !slices.ContainsFunc(metrics.Table[:], func(row metrics.Row) bool {
			return strings.HasPrefix(row.Name, "datamove_csi_") && strings.HasPrefix(name, strings.TrimPrefix(row.Name, "datamove_csi_")+" ")
		}) {
			t.Errorf("%s is not in the table", name)
		}
	}
}
