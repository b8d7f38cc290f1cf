package monitoring

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	places "datamove.dev/mover/backend"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

// checkpointsScraped is what a watch has written that has brought a checkpoint.
func checkpointsScraped(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	here := func(name string) location.Location {
		return location.Location{Scheme: location.POSIX, Path: at(name)}
	}
	must.Do(t, os.MkdirAll(at("run/step_1"), 0o755))
	must.Do(t, os.WriteFile(at("run/step_1/.metadata"), []byte("x"), 0o644))
	w := &replicate.Watch{Site: &replicate.Site{Open: places.Resolver{}.Open, Request: engine.Request{StateDir: at("state")}}, Profile: checkpoint.DCP,
		Dir: here("run"), To: []location.Location{here("pfs")}, Settle: time.Millisecond, Once: true, Metrics: at("metrics")}
	must.Do(t, w.Run(t.Context()))
	text := must.Get(os.ReadFile(at("metrics")))(t)
	return string(text)
}

func TestScrapeOfCheckpointsIsClean(t *testing.T) {
	promtool(t, checkpointsScraped(t), "check", "metrics")
}
