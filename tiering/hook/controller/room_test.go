package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/hook/directive"
)

// TestRoom: what is to go where nothing more can be written is refused at submit, also where the rest of the name is known only later.
func TestRoom(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		var asked []string
		full := ""
		w.Room = func(_ context.Context, dir string) error {
			asked = append(asked, strings.TrimPrefix(dir, w.path("")))
			if full != "" && strings.Contains(dir, full) {
				return fmt.Errorf("%w: %s", mover.ErrFull, dir)
			}
			return nil
		}
		process := func(lines ...string) error {
			_, err := w.Process(t.Context(), directive.Text{Script: script(lines...)})
			return err
		}
		lines := []string{"stage-in=results:in to=scratch:in", "stage-out=scratch:out to=results:run1/%j/out", "stage-out=scratch:more to=results:run2", "checkpoint=scratch:ckpt to=results:run4/%u,results:run3 profile=dcp"}
		must.Do(t, process(lines...))
		slices.Sort(asked)
		if len(asked) != 4 || !strings.HasSuffix(asked[0], "/run1/") || !strings.HasSuffix(asked[1], "/run2") || !strings.HasSuffix(asked[2], "/run3") || !strings.HasSuffix(asked[3], "/run4/") {
			t.Errorf("it was looked at %q", asked)
		}
		full = "/run2"
		err := process(lines...)
		wantsError(t, err, mover.ErrFull, "/run2")
		if strings.Contains(err.Error(), "/run1") {
			t.Error(err)
		}
		must.Do(t, process(lines[:2]...))
	})
}
