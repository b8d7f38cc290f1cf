package agent

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// TestInsistTells: a task that waits for the coordinator is named in the log once, with the reason, and when it goes on; a short wait is not.
func TestInsistTells(t *testing.T) {
	for _, row := range []struct {
		what  string
		waits time.Duration
		lines []string
	}{
		{"a moment", time.Second, nil},
		{"a minute", time.Minute, []string{"level=WARN msg=\"a task waits", "level=INFO msg=\"the coordinator has answered"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
			p := &process{agent: &Agent{log: log}, ctx: t.Context(), task: &pb.Task{Id: "t7"}}
			begun := time.Now()
			must.Do(t, p.insist(t.Context(), func(context.Context) error {
				if time.Since(begun) < row.waits {
					return status.Error(codes.Unavailable, "no room in the ledger")
				}
				return nil
			}))
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(row.lines) == 0 && out.Len() > 0 || len(row.lines) > 0 && len(lines) != len(row.lines) {
				t.Fatalf("%s: %q", row.what, lines)
			}
			for i, want := range row.lines {
				if !strings.HasPrefix(lines[i], want) || !strings.Contains(lines[i], "task=t7") {
					t.Errorf("%s: %q, want %q", row.what, lines[i], want)
				}
			}
			if len(row.lines) > 0 && !strings.Contains(lines[0], "no room in the ledger") {
				t.Errorf("%s: no reason in %q", row.what, lines[0])
			}
		})
	}
}
