package sandbox

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestUnanswered: what a process waits for on the way to its confinement is told meanwhile, once, and is the error of one that is not ready in time. One that
// goes on is not late because it waited.
func TestUnanswered(t *testing.T) {
	for name, row := range map[string]struct {
		ready bool
		told  []string
		want  string // "" is no error
	}{
		"it answers in the end": {true, []string{"/dead/mnt"}, ""},
		"it never answers":      {false, []string{"/dead/mnt"}, "open /dead/mnt: no answer for 30s; is its server there?"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				p := &Process{Conn: ours}
				over := make(chan struct{})
				go func() { // the process
					var got terms
					must.Do(t, receive(theirs, &got, maxTerms))
					var at step
					quiet := at.tell(theirs)
					at.goes("/alive")
					at.goes("/dead/mnt")
					if !row.ready {
						<-over
						quiet()
						return
					}
					time.Sleep(startTimeout / 2)
					at.goes("")
					time.Sleep(startTimeout / 4)
					quiet()
					must.Do(t, send(theirs, reply{Enforced: Enforced{Landlock: 7}}, maxReply))
				}()
				var told []string
				err := p.admit(t.Context(), terms{}, func(path string) { told = append(told, path) })
				if len(told) != len(row.told) || told[0] != row.told[0] {
					t.Errorf("it was told %q, want %q", told, row.told)
				}
				switch silent := (*Unanswered)(nil); {
				case row.want == "" && (err != nil || p.Enforced.Landlock != 7):
					t.Errorf("%v, %v", err, p.Enforced)
				case row.want != "" && (!errors.As(err, &silent) || !errors.Is(err, mover.ErrTimeout) || err.Error() != row.want):
					t.Errorf("%v, want %s", err, row.want)
				}
				close(over)
				synctest.Wait()
			})
		})
	}
}

// TestSteps: while roots are resolved it is known at which one, and when all are, at none.
func TestSteps(t *testing.T) {
	dir := t.TempDir()
	var at step
	if _, _, err := (Confinement{Read: []string{dir, "not absolute"}}).grants(&at); err == nil || *at.path.Load() != "not absolute" {
		t.Errorf("it is at %q, %v", *at.path.Load(), err)
	}
	if _, _, err := (Confinement{Read: []string{dir}}).grants(&at); err != nil || *at.path.Load() != "" {
		t.Errorf("it is at %q when it has all, %v", *at.path.Load(), err)
	}
}
