package burstbuffer

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm/directive"
)

// TestNames: what a job's name makes of the paths in its requests is judged when it is submitted, where it is told.
func TestNames(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		for _, row := range []struct {
			line, name string
			single     bool
			want       string // "" is no mistake
		}{
			{"stage-out=scratch:out to=results:%x/%j", "my \"best\" run; 'x'", true, ""},
			{"stage-out=scratch:out to=results:%x", "../ben/x", true, "%x, the job's name, is ../ben/x, and a slash would lead to another directory"},
			{"stage-out=scratch:out to=results:%x", "..", true, "it would be another directory"},
			{"stage-out=scratch:out to=results:.%x", ".", true, "it would be another directory"},
			{"checkpoint=scratch:ckpt to=results:a,results:b/%x", "a/b", true, "a slash would lead to another directory"},
			{"checkpoint=scratch:ckpt/%x to=results:a", ".datamove-1", true, "such names are the mover's own"},
			{"stage-in=shared:%x to=scratch:in", "a/b", true, "a slash would lead to another directory"},
			{"stage-in=shared:notes to=scratch:%x", "a\nb", true, "it has control characters"},
			{"purge=temp:%x", "..", true, "it would be another directory"},
			{"stage-out=scratch:out to=results:%a", "run", true, "this job is none: leave it out, or submit with --array"},
			{"stage-out=scratch:out to=results:%A/%a", "run", false, ""},
			{"stage-out=scratch:out to=results:%%a", "run", true, ""},
			{"stage-out=scratch:out to=results:%x", "", false, ""},
		} {
			text := directive.Text{Script: script(row.line), Name: row.name, Single: row.single}
			_, err := w.Process(t.Context(), text)
			if row.want == "" {
				must.Do(t, err)
				continue
			}
			wantsError(t, err, mover.ErrUsage, row.want)
		}
	})
}

// TestReplaced: Slurm shows Setup a script in which it has replaced patterns. What the job asks for is what was submitted, whatever its name is.
func TestReplaced(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		submit := func(id uint32, script string) string {
			name := fmt.Sprintf("state/slurmctld/hash.%d/job.%d/script", id%10, id)
			w.write(name, script+"\x00")
			return filepath.Join(w.dir, name)
		}
		run := func(id uint32, name, array, line, replaced string) error {
			must.Do(t, w.Saw(submit(id, script(line))))
			must.Do(t, w.Saw("/proc/7/fd/12")) // no such place
			must.Do(t, w.Setup(w.job(id), text(replaced)))
			must.Do(t, w.In(t.Context(), id))
			must.Do(t, w.Nodes(id, Place{Nodes: []string{"n1"}, Name: name, Array: array, Task: map[bool]string{true: "2"}[array != ""]}))
			if err := w.Before(t.Context(), id); err != nil {
				return err
			}
			w.wrote(id, "out/a")
			must.Do(t, w.Ended(id, End{}))
			return w.Out(t.Context(), id, 0)
		}
		must.Do(t, run(17, `my "run" required`, "", "stage-out=scratch:out to=results:%x/%j/%u/100%%", `stage-out=scratch:out to=results:my "run" required/17/somebody/100%`))
		w.wants(`results/my "run" required/17/somebody/100%/a`, "17 out/a")
		must.Do(t, run(18, "x", "", "stage-out=scratch:out to=results:%A", "stage-out=scratch:out to=results:0")) // which has been one directory for all
		w.wants("results/18/a", "18 out/a")
		must.Do(t, run(19, "x", "12", "stage-out=scratch:out to=results:%A/%a", "stage-out=scratch:out to=results:12/2"))
		w.wants("results/12/2/a", "19 out/a")
		must.Do(t, run(20, "x", "12", "stage-in=shared:notes to=temp:%A", "stage-in=shared:notes to=temp:12")) // before its nodes are known
		w.wants("temp/12/note", "a note")

		for id, name := range map[uint32]string{21: "../x", 22: "a/b"} {
			err := run(id, name, "", "stage-out=scratch:out to=results:%x", "stage-out=scratch:out to=results:"+name)
			wantsError(t, err, mover.ErrUsage, "a slash would lead to another directory")
			if err := w.In(t.Context(), id); err == nil || !strings.Contains(err.Error(), "a slash would lead") {
				t.Errorf("Slurm does not hold job %d: %v", id, err)
			}
			must.Do(t, w.Teardown(t.Context(), id, true))
		}
		w.wants("x/a", "")
		must.Do(t, w.Setup(w.job(23), text("stage-out=scratch:out to=results:my", "stage-out=scratch:b to=results:50%"))) // its script is not found: what Slurm says is read
		wantsError(t, w.Setup(w.job(23), text("stage-out=scratch:out to=results:my run")), mover.ErrUsage, "run: unknown word")
	})
}
