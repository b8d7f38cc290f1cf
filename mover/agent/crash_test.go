package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// The log of a node has what a report of a crash needs, in one line.
func TestCrashIsLogged(t *testing.T) {
	var log bytes.Buffer
	a := &Agent{o: Options{Name: "n1", Version: "1.2.3"}, log: slog.New(slog.NewTextHandler(&log, nil))}
	p := &process{agent: a, task: &pb.Task{Id: "t1"}}
	err := p.crashed("panic: runtime error: \x1b[31mnil\n\ngoroutine 7 [running]:\nmain.f()\n")
	if kind := mover.KindName(err); kind != "OTHER" || !strings.Contains(err.Error(), `"panic: runtime error: \x1b[31mnil"`) {
		t.Errorf("%s: %v", kind, err)
	}
	line := log.String()
	for _, want := range []string{"level=ERROR", "task=t1", "version=1.2.3", "goroutine 7", "main.f()"} {
		if !strings.Contains(line, want) || strings.Count(line, "\n") != 1 {
			t.Errorf("%q is not in the line %q", want, line)
		}
	}
}
