package checkpointworker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

const (
	foldersMost     = 10_000 // of a tier, in which is looked
	checkpointsMost = 10_000 // of a folder, that are told
	toldAgain       = time.Hour
	scanPause       = 30 * time.Second // after a round that could not be told of
)

// scanner has the folders of checkpoints of a tier, which it looks at again and again.
type scanner struct {
	*worker.Job
	tier    location.Location
	folders map[string]*scannedFolder
}

// scannedFolder is one of them.
type scannedFolder struct {
	looker *replicate.Looker
	told   *agentv1.CheckpointFolder
	at     time.Time // when it was told
	failed string    // why the last look has failed
}

// Scan is the Runner that tells the coordinator which checkpoints are in the source, until it is told to end.
type Scan struct{ worker.FollowsLinks }

// Run implements worker.Runner.
func (Scan) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	begun := time.Now()
	l, err := j.At(j.Spec().GetSource())
	s := &scanner{Job: j, tier: l, folders: map[string]*scannedFolder{}}
	defer s.close(nil)
	for err == nil {
		began, rest := time.Now(), scanPause
		switch err = s.round(ctx); {
		case err == nil:
			j.State(engine.Moving, "")
			rest = replicate.Rest(time.Since(began))
		case errors.Is(err, mover.ErrUnreachable), errors.Is(err, mover.ErrTransient), errors.Is(err, mover.ErrFull):
			j.State(engine.Waiting, "checkpoints can not be told of: "+err.Error())
			err = nil
		default:
			return engine.Report{Elapsed: time.Since(begun)}, err
		}
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(rest):
		}
	}
	return engine.Report{Elapsed: time.Since(begun)}, err
}

// round looks into every folder once.
func (s *scanner) round(ctx context.Context) error {
	asked, err := s.Agent().Checkpoints(ctx, &agentv1.TellCheckpointsRequest{})
	if err != nil {
		return worker.FromAgent(ctx, err)
	}
	names, err := s.find(ctx, asked.GetFolders())
	if err != nil {
		return err
	}
	there, sets := map[string]bool{}, 0
	for _, name := range names {
		there[name] = true
		n, err := s.look(ctx, name, asked.GetSettle().AsDuration())
		if err != nil {
			return err
		}
		sets += n
	}
	s.close(there)
	end := &agentv1.CheckpointRound{}
	for _, name := range names {
		end.Folders = append(end.Folders, []byte(name))
	}
	if _, err := s.Agent().Checkpoints(ctx, &agentv1.TellCheckpointsRequest{Round: end}); err != nil {
		return worker.FromAgent(ctx, err)
	}
	s.State(engine.Moving, fmt.Sprintf("%d checkpoints are in %d folders", sets, len(names)))
	return nil
}

// find finds the folders that match patterns. A name that begins with a dot needs a pattern that begins with one.
func (s *scanner) find(ctx context.Context, patterns []string) (names []string, err error) {
	for _, pattern := range patterns {
		at := []string{""}
		for want := range strings.SplitSeq(pattern, "/") {
			if at, err = s.within(ctx, at, want); err != nil {
				return nil, err
			}
		}
		names = append(names, at...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// within are the directories in some others that a segment of a pattern means.
func (s *scanner) within(ctx context.Context, dirs []string, want string) (names []string, err error) {
	for _, dir := range dirs {
		l := s.tier
		if dir != "" {
			l = l.Child(dir)
		}
		for e, err := range engine.List(ctx, l, false, s.Open) {
			if errors.Is(err, mover.ErrNotExist) || errors.Is(err, mover.ErrPermission) && dir != "" {
				break // it has gone, or is not for us
			}
			if err != nil {
				return nil, err
			}
			base := path.Base(e.Name)
			if is, _ := path.Match(want, base); !is || e.Kind != mover.Dir || base[0] == '.' && want[0] != '.' {
				continue
			}
			if names = append(names, mover.Join(dir, base)); len(names) > foldersMost {
				return nil, &mover.Error{Op: "look for checkpoints", Location: s.tier.String(), Err: fmt.Errorf("%w: more than %d folders are meant (tiers.NAME.checkpoints.folders)", mover.ErrRefused, foldersMost)}
			}
		}
	}
	return names, nil
}

// look looks into one folder, and tells what has changed. That it can not be looked into is no error: what is known of it stays.
func (s *scanner) look(ctx context.Context, name string, settle time.Duration) (sets int, err error) {
	f := s.folders[name]
	if f == nil {
		f = &scannedFolder{}
		s.folders[name] = f
	}
	if f.looker == nil {
		site := replicate.Site{Open: s.Open, Request: engine.Request{StateDir: s.Order().GetStateDir()}, Log: s.Log()}
		folder, err := site.In(ctx, s.tier, name, checkpoint.Plain, false)
		if err != nil {
			s.fails(name, f, err)
			return 0, context.Cause(ctx)
		}
		f.looker = &replicate.Looker{Folder: folder, Guesses: true}
	}
	f.looker.Settle = settle
	seen, err := f.looker.Look(ctx, time.Now())
	if err == nil && len(seen.Seen) > checkpointsMost {
		err = fmt.Errorf("%w: there are more than %d checkpoints in it", mover.ErrRefused, checkpointsMost)
	}
	if err != nil {
		s.fails(name, f, err)
		return 0, context.Cause(ctx)
	}
	f.failed = ""
	is := folderOnWire(name, seen)
	if proto.Equal(is, f.told) && time.Since(f.at) < toldAgain {
		return len(seen.Seen), nil
	}
	if _, err := s.Agent().Checkpoints(ctx, &agentv1.TellCheckpointsRequest{Folder: is}); err != nil {
		return 0, worker.FromAgent(ctx, err)
	}
	f.told, f.at = is, time.Now()
	return len(seen.Seen), nil
}

// fails notes why a folder could not be looked into, and opens it anew the next time: it may be another one.
func (s *scanner) fails(name string, f *scannedFolder, err error) {
	if f.failed != err.Error() {
		f.failed = err.Error()
		s.Log().Warn("a folder of checkpoints can not be looked into, will try again", "folder", mover.Printable(name), "err", err)
	}
	f.close()
}

func (f *scannedFolder) close() {
	if f.looker != nil {
		_ = f.looker.Close() // it was only read
		f.looker = nil
	}
}

// close forgets the folders that are not there.
func (s *scanner) close(there map[string]bool) {
	for name, f := range s.folders {
		if !there[name] {
			f.close()
			delete(s.folders, name)
		}
	}
}

var stateOnWire = map[checkpoint.State]pb.CheckpointState{
	checkpoint.Seen: pb.CheckpointState_CHECKPOINT_STATE_SEEN, checkpoint.Settling: pb.CheckpointState_CHECKPOINT_STATE_SETTLING,
	checkpoint.Complete: pb.CheckpointState_CHECKPOINT_STATE_COMPLETE, checkpoint.Verified: pb.CheckpointState_CHECKPOINT_STATE_VERIFIED,
}

// folderOnWire is what a folder has, on the wire. A copy that was checked has not to settle: it had its name when it was whole.
func folderOnWire(name string, seen replicate.Look) *agentv1.CheckpointFolder {
	out := &agentv1.CheckpointFolder{Name: []byte(name)}
	for _, s := range seen.Seen {
		state := s.State
		if s.Verified && state != checkpoint.Seen {
			state = checkpoint.Verified
		}
		c := &pb.Checkpoint{Name: []byte(s.Name), State: stateOnWire[state], Why: strings.ToValidUTF8(s.Why, "\uFFFD"), Save: s.Save, Step: s.Step, MadeNs: s.Made, Files: s.Files, Bytes: s.Bytes, Tagged: s.Tagged, SingleFile: !s.Dir}
		for _, p := range seen.Pointers {
			c.Named = c.Named || p.Names == s.Name
		}
		out.Checkpoints = append(out.Checkpoints, c)
	}
	for _, name := range seen.Trackers {
		out.Checkpoints = append(out.Checkpoints, &pb.Checkpoint{Name: []byte(name), Tracker: true})
	}
	return out
}
