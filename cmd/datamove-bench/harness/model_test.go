package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/bench/hardware"
	"datamove.dev/bench/result"
	"datamove.dev/test/must"
)

// recorded saves a run of four hosts that read so many bytes per second, five times, verified.
func recorded(t *testing.T, rate float64) (file string) {
	r := &result.Run{Schema: result.Schema}
	var shares []result.Share
	for i := range 4 {
		name := fmt.Sprintf("n%d", i)
		r.Nodes = append(r.Nodes, result.Node{Name: name, Host: name})
		shares = append(shares, result.Share{Name: name})
	}
	for range 5 {
		for _, name := range []string{"read", "verify"} {
			r.Phases = append(r.Phases, result.Phase{Suite: "large", Name: name, Unit: result.Bytes, NodeCount: 4, PerNode: shares, Last: result.Done{Seconds: 10, Bytes: int64(10 * rate)}})
		}
	}
	file = filepath.Join(t.TempDir(), "run.json")
	f, err := os.Create(file)
	if err == nil {
		err = r.Write(f)
	}
	if err == nil {
		err = f.Close()
	}
	must.Do(t, err)
	return file
}

// TestModelOfRuns: what was measured makes the verdict, and ceilings of one host those of all.
func TestModelOfRuns(t *testing.T) {
	const four = "kind: Cluster\nname: four\ntarget: {read: 30GB/s}\nclients: {nodes: 4, nic: 100G}\noss: {nodes: 4, nic: 100G}\n"
	out, code := run(t, four, "model", "-", "--run", recorded(t, 32e9), "--require", "validated")
	if code != 0 || !strings.Contains(out, "30 GB/s are asked for: validated") || !strings.Contains(out, "4 nodes reached 32 GB/s (32 GB/s to 32 GB/s) in 5 repeats") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if out, code := run(t, four, "model", "-", "--run", recorded(t, 20e9), "--require", "validated"); code != 1 || !strings.Contains(out, "by measured; 30 GB/s are asked for: refuted") {
		t.Errorf("exit %d\n%s", code, out)
	}
	out, code = run(t, four, "model", "-", "--run", recorded(t, 300e9), "--require", "validated")
	if code != 1 || !strings.Contains(out, "a ceiling is declared wrongly, or what was read came from a cache") {
		t.Errorf("exit %d\n%s", code, out)
	}
	text, err := json.Marshal(ceilingsFile{ceilingsSchema, time.Now(), []hardware.Ceiling{{Name: "nic.send", Rate: 5e9}, {Name: "nic.receive", Rate: 6e9}}})
	file := filepath.Join(t.TempDir(), "oss.json")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	must.Do(t, err)
	if out, code := run(t, four, "model", "-", "--ceilings", "oss="+file); code != 0 || !strings.Contains(out, "at most 20 GB/s, by oss.nic; 30 GB/s are asked for: refuted") || !strings.Contains(out, "measured; 2 more are missing") {
		t.Errorf("exit %d\n%s", code, out)
	}
	for want, args := range map[string][]string{
		"want GROUP=FILE":           {"--ceilings", file},
		"there is no group":         {"--ceilings", "mds=" + file},
		"this is nothing that":      {"--ceilings", "oss=" + founding},
		"no such file":              {"--run", file + ".old"},
		"the schema is":             {"--run", file},
		"is no run of datamove-ben": {"--run", founding},
	} {
		if out, code := run(t, four, append([]string{"model", "-"}, args...)...); code != 2 || !strings.Contains(out, want) {
			t.Errorf("%q: exit %d\n%s", args, code, out)
		}
	}
}
