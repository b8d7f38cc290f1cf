package sandbox

import (
	"strings"
	"syscall"
	"testing"

	"datamove.dev/test/must"
)

// A panic of any goroutine of a process is told as what it is, with its stack; an end of another kind is none.
func TestCrash(t *testing.T) {
	needRoot(t)
	for _, row := range []struct {
		what, panics string
		want         []string
	}{
		{"a panic", "a fault of ours", []string{"panic: a fault of ours", "goroutine ", "main.", "main.go:"}},
		{"a panic that says much", strings.Repeat("much ", 100_000), []string{"panic: much much"}},
		{"a kill", "", nil},
	} {
		t.Run(row.what, func(t *testing.T) {
			a := begin(t, Options{Account: asAlice(), Roots: everything})
			if row.panics == "" {
				a.signal(syscall.SIGKILL)
			} else {
				must.Do(t, a.in.Encode(map[string]string{"Op": "panic", "A": row.panics}))
			}
			<-a.Done()
			got := a.Crash()
			if row.want == nil && got != "" || len(got) > crashBytes {
				t.Errorf("it has crashed: %d bytes: %.200s", len(got), got)
			}
			for _, want := range row.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in %.500q", want, got)
				}
			}
		})
	}
}
