package cli

import (
	"bytes"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestLogLevels: without --log-level warnings are told, and with --quiet errors alone.
func TestLogLevels(t *testing.T) {
	for _, row := range []struct {
		quiet bool
		level string
		want  string
	}{
		{false, "", "warn error"},
		{true, "", "error"},
		{true, "warn", "warn error"},
		{false, "ERROR", "error"},
	} {
		a := App{Quiet: row.quiet, logLevel: row.level}
		var out bytes.Buffer
		log := must.Get(a.Logger(&out))(t)
		log.Info("info")
		log.Warn("warn")
		log.Error("error")
		var said []string
		for line := range strings.Lines(out.String()) {
			_, word, _ := strings.Cut(line, "msg=")
			said = append(said, strings.TrimSpace(word))
		}
		if got := strings.Join(said, " "); got != row.want {
			t.Errorf("quiet %v, --log-level %q: %q, want %q", row.quiet, row.level, got, row.want)
		}
	}
}
