package checkpointer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
)

// state is how far a copy is.
type state uint8

const (
	going state = iota // or waits to be tried again
	moved
	given // up: a user has cancelled it, or there was nothing to copy, or it can not be
)

// Parts of a save, as values of slurm.PartLabel, and the labels by which nodes find those of each other.
const (
	partLead  = "lead" // what is in it, by the node that has its mark
	partOther = "part" // what another node has of it
	partLast  = "last" // its mark, or a tracker
	partLeft  = "left" // what is left when the job has ended
	partKeep  = "keep" // nothing: older ones go
	partAll   = "all"  // nothing: it waits, and says that the node has told of all its saves

	saveLabel = "slurm_save" // the save
	setLabel  = "slurm_set"  // the checkpoint, at its target
	markLabel = "slurm_mark" // of the lead: the name of the mark; "" is none
)

// want is a copy that is to be.
type want struct {
	part, from, to string
	save           string   // print of what is copied
	except         []string // names directly in it that are not copied
	labels         map[string]string
	merges         bool // with what other nodes bring to the same place
	paused         bool
}

// key finds a copy again.
func (r *round) key(w want) string {
	return fmt.Sprintf("checkpoint/%d/%s/%s/%s/%s/%s", r.ID, r.Node, w.part, w.from, w.to, w.save)
}

func (r *round) order(w want) datasetclient.Order {
	labels := map[string]string{slurm.PartLabel: w.part}
	if !w.paused {
		labels[slurm.Leaves] = r.Node
	}
	maps.Copy(labels, w.labels)
	return datasetclient.Order{Key: r.key(w), From: w.from, To: w.to, Node: r.Node, Options: r.options(w), Labels: labels, Paused: w.paused,
		Class: datamovev1.TaskClass_TASK_CLASS_CHECKPOINT}
}

func (r *round) options(w want) *datamovev1.Options {
	o := &datamovev1.Options{SourceMayBeAbsent: true} // the job may have removed it meanwhile
	if r.watch.keep > 0 {                             // because of it older ones go
		o.Verify = datamovev1.Level_LEVEL_SERVER
	}
	if w.merges {
		o.BackupDir, o.Checksum = r.watch.options.GetBackupDir(), r.watch.options.GetChecksum()
	}
	for _, name := range w.except {
		o.Rules = append(o.Rules, &datamovev1.Rule{Exclude: true, Pattern: "/" + literal.Replace(name)})
	}
	return o
}

// literal writes a name as a pattern that matches it alone.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`)

// digest is a text as short as labels are.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// copied asks for a copy, begins it where it was not begun, and says how far it is. One that failed is begun again, each time later.
func (r *round) copied(ctx context.Context, w want) (state, error) {
	key := r.key(w)
	if e, ended := r.ends[key]; ended {
		return e.how, nil
	}
	last, err := r.mover.Last(ctx, key)
	if err != nil {
		return going, err
	}
	switch how := r.stateOf(last); {
	case how != going:
		r.ends[key] = end{how, r.now}
		return how, nil
	case last.GetState() == datamovev1.TaskState_TASK_STATE_FAILED:
		if t := r.tries[key]; r.now.Before(t.next) {
			return going, nil
		}
		t := r.tries[key]
		r.tries[key] = try{t.fails + 1, r.now.Add(min(triesMost, triesLeast<<min(t.fails, 10)))}
		r.Log.Warn("a checkpoint can not be copied, will try again", "job", r.ID, "from", mover.Printable(w.from), "to", mover.Printable(w.to), "task", last.GetId(), "err", mover.Printable(last.GetError()))
	case last != nil:
		r.busy = true
		return going, nil
	}
	r.busy = true
	err = r.mover.Copy(ctx, r.order(w)) // which says how the last one has ended
	if errors.As(err, new(*datasetclient.Underway)) || last != nil && !errors.Is(err, mover.ErrUnreachable) {
		return going, nil
	}
	return going, err
}

const (
	triesLeast = 10 * time.Second
	triesMost  = 5 * time.Minute
)

// stateOf is how far a task is.
func (r *round) stateOf(t *datamovev1.Task) state {
	switch t.GetState() {
	case datamovev1.TaskState_TASK_STATE_DONE:
		return moved
	case datamovev1.TaskState_TASK_STATE_CANCELLED:
		return given
	}
	return going
}

// before says whether a copy was seen to be done before this look at the directory: then what was copied looked as it does now.
func (r *round) before(w want) bool { return r.ends[r.key(w)].at.Before(r.now) }
