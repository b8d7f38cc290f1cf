package daemon

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/trust"
	"datamove.dev/test/must"
)

// TestLapsedNode: a node whose certificate is not good by its clock says so in its log, with the file, the dates and the clock; without a token it ends with what
// lets it join again, whether it has just begun or has slept for too long.
func TestLapsedNode(t *testing.T) {
	for _, row := range []struct {
		name   string
		change time.Duration // of the clock, after the certificate was made
		says   string        // "" is good
	}{
		{"it is good", time.Minute, ""}, {"it has ended", 48 * time.Hour, "the certificate of agent n1 ended at 2000-01-02T00:00:00Z, was good from "},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				h := &host{log: slog.New(slog.NewTextHandler(&log, nil))}
				h.at.data, h.at.node = dir, "n1"
				id, file := trust.Identity{Role: trust.Agent, Name: "n1"}, filepath.Join(dir, "identity", "identity.pem")
				a := &app{}
				if _, err := a.identity(t.Context(), h, "head:7645"); !errors.Is(err, mover.ErrUsage) || !strings.Contains(adviceFor(err), "datamove agent token n1") {
					t.Errorf("before it has joined: %v", err)
				}
				keeper := must.Get(trust.OpenKeeper(filepath.Dir(file), id, trust.KeeperOptions{}))(t)
				authority := must.Get(trust.OpenAuthority(filepath.Join(dir, "trust")))(t)
				must.Do(t, keeper.Obtain(t.Context(), func(_ context.Context, request []byte) ([]byte, []byte, error) {
					issued, err := authority.Issue(request, id, 24*time.Hour)
					return issued.Certificate, issued.Authority, err
				}))
				time.Sleep(row.change)
				_, err := a.identity(t.Context(), h, "head:7645")
				if row.says == "" {
					must.Do(t, err)
					return
				}
				for what, text := range map[string]string{"the error": err.Error(), "the log": log.String(), "a long sleep": a.keeps(t.Context(), h, keeper, "head:7645", nil).Error()} {
					for _, want := range []string{row.says, "the clock of this machine says 2000-01-03T00:00:00Z", file} {
						if !strings.Contains(text, want) {
							t.Errorf("%s: no %q in %s", what, want, text)
						}
					}
				}
				for _, err := range []error{err, a.keeps(t.Context(), h, keeper, "head:7645", nil)} {
					if code, try := exitCode(err), adviceFor(err); code != 4 || !strings.HasPrefix(try, "timedatectl") || !strings.Contains(try, "datamove agent token n1") {
						t.Errorf("exit %d, try %s", code, try)
					}
				}
			})
		})
	}
}
