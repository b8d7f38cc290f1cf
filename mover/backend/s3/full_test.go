package s3_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/engine"
	"datamove.dev/test/must"
)

// paused hears why a run waits.
type paused struct {
	once sync.Once
	told func(why string)
}

func (p *paused) State(phase engine.Phase, why string) {
	if phase == engine.Paused {
		p.once.Do(func() { p.told(why) })
	}
}

func (*paused) Item(engine.Item) {}

// TestFullBucket: a store without room refuses in many ways. A run that is to fail ends with the error of a full target, and one that is to
// wait says what the store said, and goes on when there is room.
func TestFullBucket(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d", i)), []byte("x"), 0o600))
	}
	for _, row := range []struct {
		code   int
		name   string
		client string
	}{
		{http.StatusForbidden, "QuotaExceeded", s3api.ClientMinio}, // Ceph RGW, versitygw
		{http.StatusForbidden, "QuotaExceeded", s3api.ClientAWS},
		{http.StatusInsufficientStorage, "XMinioStorageFull", s3api.ClientMinio},
		{http.StatusBadRequest, "XMinioAdminBucketQuotaExceeded", s3api.ClientMinio},
		{http.StatusInsufficientStorage, "InsufficientStorage", s3api.ClientMinio},
		{http.StatusInsufficientStorage, "", s3api.ClientAWS},
	} {
		for _, onFull := range []engine.OnNoSpace{engine.NoSpaceFail, engine.NoSpaceWait} {
			t.Run(fmt.Sprint(row.code, row.name, row.client, onFull), func(t *testing.T) {
				l := newLiar(t, row.client)
				l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
					return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/to/f1") && status(row.code, row.name)(w, r, forward)
				})
				var why string
				r := engine.Request{Work: engine.Copy, OnNoSpace: onFull, Observer: &paused{told: func(told string) {
					why = told
					l.honest()
				}}}
				report, err := run(t, r, dir+"/", "s3://bucket/"+strings.Trim(l.options.Prefix, "/")+"/to", map[string]shop{"bucket": {T: t, o: l.options}})
				switch {
				case onFull == engine.NoSpaceFail && (!errors.Is(err, mover.ErrFull) || why != ""):
					t.Errorf("the run ended with %v; it waited for %q", err, why)
				case onFull == engine.NoSpaceWait && (err != nil || report.Files != 20 || !strings.Contains(why, "no room") || !strings.Contains(why, row.name)):
					t.Errorf("the run ended with %v, and %d files; it waited for %q", err, report.Files, why)
				}
			})
		}
	}
}
