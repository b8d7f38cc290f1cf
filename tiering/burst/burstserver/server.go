package burstserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/tiering/burst"
)

const (
	declarationMost = 64 << 10 // bytes: it is in the task
	abandonedMost   = 1000     // paths
	costDaysMost    = 62       // of this month and the one before: others can not be adjusted
	burstPage       = 20
	burstPageMost   = 100
	burstPageBytes  = 4 << 20 // of records in a page
)

// burstLabel is the label of tasks of a burst.
const burstLabel = "burst"

// teamOwner is the owner of a burst, and of the money of a team: the members of the project of that name alone.
func teamOwner(team string) authz.Owner {
	return authz.Owner{Name: noAccount, UID: ^uint32(0), Project: team}
}

// mayForTeam says whether a caller may do what a method does with bursts of a team.
func (s *Server) mayForTeam(c authz.Caller, method, team string) error {
	d := s.o.Rules().MayOn(c, authz.OfMethod(method), teamOwner(team))
	if d.Allowed {
		return nil
	}
	return fmt.Errorf("team %s: members of the project of that name may: %w", mover.Printable(team), d.Err())
}

// MayLabel says whether a caller's lease may have labels: that of a burst keeps the burst, and what it costs, so that it is for accounts that may change it.
func (s *Server) MayLabel(c authz.Caller, labels map[string]string) error {
	name := labels[burstLabel]
	if name == "" {
		return nil
	}
	row, _, err := s.knownBurst(c, name)
	if err == nil {
		err = s.mayForTeam(c, pb.BurstService_FollowBurst_FullMethodName, row.GetTeam())
	}
	if err != nil {
		return fmt.Errorf("the label %s of a lease: %w", burstLabel, err)
	}
	return nil
}

// ApplyBurst implements pb.BurstServiceServer.
func (s *Server) ApplyBurst(ctx context.Context, r *pb.ApplyBurstRequest) (*pb.Task, error) {
	c := authz.From(ctx)
	b, err := s.declared(c, r)
	if err != nil {
		return nil, err
	}
	team := string(b.Spec.Team)
	if err := s.mayForTeam(c, pb.BurstService_ApplyBurst_FullMethodName, team); err != nil {
		return nil, err
	}
	project := team
	if _, is := s.o.Config().Projects[team]; !is {
		project = "" // the caller's first, if there are any
	}
	work := &pb.BurstWork{Step: r.GetStep(), Name: string(b.Metadata.Name), Team: team, Declaration: b.Text, Abandon: r.GetAbandon(), Settle: r.GetSettle(), Take: r.GetTake(), Release: r.GetRelease(), Adopt: r.GetAdopt(), Days: r.GetDays()}
	if err := workShape(work); err != nil {
		return nil, err
	}
	labels := map[string]string{}
	for key, value := range r.GetLabels() {
		labels[key] = value
	}
	labels[burstLabel] = work.GetName()
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_BURST, Target: b.Spec.Cloud.Tier + ":" + b.Prefix(), Burst: work}
	spec.Project, spec.Node, spec.Labels, spec.Class = project, r.GetNode(), labels, r.GetClass()
	spec.Options = &pb.Options{Jobs: r.GetJobs(), BytesPerSecond: r.GetBytesPerSecond()}
	if spec.Class == pb.TaskClass_TASK_CLASS_UNSPECIFIED && work.GetStep() == pb.BurstStep_BURST_STEP_SYNC_BACK {
		spec.Class = pb.TaskClass_TASK_CLASS_CHECKPOINT
	}
	if err := s.reaches(c, spec, b); err != nil {
		return nil, err
	}
	return s.o.Coordinator.Submit(ctx, spec, r.GetIdempotencyKey(), nil)
}

// declared is the declaration that a request is about: that in it, or the one that was applied last.
func (s *Server) declared(c authz.Caller, r *pb.ApplyBurstRequest) (*burst.Burst, error) {
	if !convert.Declares(r.GetStep()) {
		if r.GetDeclaration() != "" {
			return nil, mover.Usagef("the declaration of a burst is applied by UP; other steps name the burst")
		}
		row, record, err := s.knownBurst(c, r.GetName())
		if err != nil {
			return nil, err
		}
		if burst.State(row.GetState()).Ended() && r.GetStep() != pb.BurstStep_BURST_STEP_DOWN && r.GetStep() != pb.BurstStep_BURST_STEP_COSTS {
			return nil, &mover.Error{Op: "apply", Location: "burst " + row.GetName(), Err: refusal(mover.ErrNotExist, "it is gone; datamove burst up FILE begins it anew")}
		}
		return record.Burst()
	}
	if len(r.GetDeclaration()) > declarationMost {
		return nil, mover.Usagef("a declaration of %d bytes; at most %d are possible", len(r.GetDeclaration()), declarationMost)
	}
	all, err := burst.Read("declaration", []byte(r.GetDeclaration()))
	switch {
	case err != nil:
		return nil, err
	case len(all) != 1:
		return nil, mover.Usagef("%d bursts are declared; want one", len(all))
	case r.GetName() != "" && r.GetName() != string(all[0].Metadata.Name):
		return nil, mover.Usagef("the burst that is declared is %s, and not %s", all[0].Metadata.Name, mover.Printable(r.GetName()))
	}
	return all[0], s.sameTeam(all[0])
}

// sameTeam refuses to apply a burst by the name of one of another team that is not over.
func (s *Server) sameTeam(b *burst.Burst) error {
	return s.o.Ledger.View(func(tx *state.Tx) error {
		row, err := newestBurst(tx, string(b.Metadata.Name))
		if err != nil {
			return ignoreMissing(err)
		}
		if row.GetTeam() != string(b.Spec.Team) && !burst.State(row.GetState()).Ended() {
			return &mover.Error{Op: "apply", Location: "burst " + row.GetName(), Err: fmt.Errorf("%w: another team has one of that name", mover.ErrConflict)}
		}
		return nil
	})
}

// workShape checks what the step of a burst can have.
func workShape(w *pb.BurstWork) error {
	step := w.GetStep()
	switch {
	case step <= pb.BurstStep_BURST_STEP_UNSPECIFIED || step > pb.BurstStep_BURST_STEP_COSTS:
		return mover.Usagef("there is no step %v of a burst", step)
	case len(w.GetAbandon()) > 0 && step != pb.BurstStep_BURST_STEP_DOWN:
		return mover.Usagef("only a step down gives something up")
	case len(w.GetAbandon()) > abandonedMost:
		return mover.Usagef("%d paths are given up; at most %d", len(w.GetAbandon()), abandonedMost)
	case w.GetRelease() && step != pb.BurstStep_BURST_STEP_SYNC_BACK:
		return mover.Usagef("release is of SYNC_BACK")
	case w.GetTake() && step != pb.BurstStep_BURST_STEP_REAP:
		return mover.Usagef("take is of REAP")
	case (w.GetAdopt() != "") != (step == pb.BurstStep_BURST_STEP_ADOPT), w.GetAdopt() != "" && !recordID.MatchString(w.GetAdopt()):
		return mover.Usagef("adopt is of ADOPT, and is the ID of a burst: 16 hexadecimal digits")
	case (w.GetDays() != 0) != (step == pb.BurstStep_BURST_STEP_COSTS), w.GetDays() < 0, w.GetDays() > costDaysMost:
		return mover.Usagef("days are of COSTS: 1 to %d", costDaysMost)
	case w.GetSettle() != nil && (!w.GetSettle().IsValid() || w.GetSettle().AsDuration() < 0):
		return mover.Usagef("settle is a time, or none")
	}
	for _, text := range w.GetAbandon() {
		var p burst.Path
		if err := p.UnmarshalText([]byte(text)); err != nil {
			return mover.Usagef("what is given up: %w", err)
		}
	}
	return nil
}

// reaches fills in which locations a step reads and writes, beside the bucket.
func (s *Server) reaches(c authz.Caller, spec *pb.TaskSpec, b *burst.Burst) error {
	w := spec.GetBurst()
	if w.GetStep() == pb.BurstStep_BURST_STEP_ADOPT || w.GetStep() == pb.BurstStep_BURST_STEP_COSTS {
		return nil
	}
	if convert.ComesHome(spec) {
		for _, h := range b.Homeward() {
			w.Homes = append(w.Homes, h.Home)
		}
		return nil
	}
	for _, d := range b.Spec.Data {
		if w.GetStep() == pb.BurstStep_BURST_STEP_ESTIMATE && d.Size > 0 {
			continue // it is not looked at
		}
		at, err := s.replicaOf(c, spec, d.From)
		if err != nil {
			return err
		}
		spec.Sources = append(spec.Sources, at)
	}
	return nil
}

// replicaOf is where something that is sent is read: of a dataset its nearest replica.
func (s *Server) replicaOf(c authz.Caller, spec *pb.TaskSpec, from string) (string, error) {
	if !strings.HasPrefix(from, "dataset:") {
		return from, nil
	}
	at, node, err := s.o.Datasets.NearestReplica(c, from, spec)
	if err != nil {
		return "", err
	}
	if spec.Node = node; spec.GetBurst().Replicas == nil {
		spec.Burst.Replicas = map[string]string{}
	}
	spec.Burst.Replicas[from] = at
	return at, nil
}

// knownBurst is the newest burst of a name that a caller may see. Whether there is another one is not told.
func (s *Server) knownBurst(c authz.Caller, name string) (row *ledgerv1.BurstRecord, record *burst.Record, err error) {
	err = s.o.Ledger.View(func(tx *state.Tx) error {
		if row, err = newestBurst(tx, name); err != nil {
			return err
		}
		if !s.seesBurst(c, row.GetTeam()) {
			return noBurst(name)
		}
		record, err = recordOf(tx, row.GetId())
		return err
	})
	return row, record, err
}

func (s *Server) seesBurst(c authz.Caller, team string) bool {
	return s.o.Rules().MayOn(c, authz.OfMethod(pb.BurstService_GetBurst_FullMethodName), teamOwner(team)).Allowed
}

// GetBurst implements pb.BurstServiceServer.
func (s *Server) GetBurst(ctx context.Context, r *pb.GetBurstRequest) (out *pb.Burst, err error) {
	c := authz.From(ctx)
	err = s.o.Ledger.View(func(tx *state.Tx) error {
		row, err := newestBurst(tx, r.GetName())
		if err == nil && !s.seesBurst(c, row.GetTeam()) {
			err = noBurst(r.GetName())
		}
		if err == nil {
			out, err = shownBurst(tx, row)
		}
		return err
	})
	return out, err
}

func shownBurst(tx *state.Tx, row *ledgerv1.BurstRecord) (*pb.Burst, error) {
	text, err := textOf(tx, row.GetId())
	if err != nil {
		return nil, err
	}
	return &pb.Burst{Id: row.GetId(), Name: row.GetName(), Team: row.GetTeam(), Owner: row.GetOwner(), State: row.GetState(), Task: row.GetTask(), CreateTime: row.GetCreateTime(), ChangeTime: row.GetChangeTime(),
		Record: string(text), Follower: row.GetFollower()}, nil
}

// ListBursts implements pb.BurstServiceServer.
func (s *Server) ListBursts(ctx context.Context, r *pb.ListBurstsRequest) (*pb.ListBurstsResponse, error) {
	c, out, bytes, size := authz.From(ctx), &pb.ListBurstsResponse{}, 0, burstPage
	if n := int(r.GetPageSize()); n > 0 {
		size = min(n, burstPageMost)
	}
	return out, s.o.Ledger.View(func(tx *state.Tx) error {
		var last *ledgerv1.BurstRecord
		for row, err := range state.BurstsByTime.All(tx, state.Range{After: r.GetPageToken()}) {
			if err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			if r.GetTeam() != "" && r.GetTeam() != row.GetTeam() || !r.GetGone() && burst.State(row.GetState()).Ended() || !s.seesBurst(c, row.GetTeam()) {
				continue
			}
			if len(out.Bursts) == size || bytes > burstPageBytes {
				out.NextPageToken = state.BurstsByTime.Token(last)
				break
			}
			b, err := shownBurst(tx, row)
			if err != nil {
				return err
			}
			out.Bursts, bytes, last = append(out.Bursts, b), bytes+len(b.GetRecord()), row
		}
		return nil
	})
}

// FollowBurst implements pb.BurstServiceServer.
func (s *Server) FollowBurst(ctx context.Context, r *pb.FollowBurstRequest) (*pb.Burst, error) {
	c := authz.From(ctx)
	row, _, err := s.knownBurst(c, r.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.mayForTeam(c, pb.BurstService_FollowBurst_FullMethodName, row.GetTeam()); err != nil {
		return nil, err
	}
	err = s.o.Ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		if row, err = newestBurst(tx, r.GetName()); err != nil {
			return err
		}
		if burst.State(row.GetState()).Ended() {
			return &mover.Error{Op: "follow", Location: "burst " + row.GetName(), Err: refusal(mover.ErrNotExist, "it is gone")}
		}
		row.Follower, row.FollowTime, row.Groups, row.Via, row.Agent = &pb.Account{Name: c.Name, Uid: c.UID}, timestamppb.New(s.o.Now()), c.Groups, string(c.Via), c.Agent
		if r.GetOff() {
			row.Follower, row.FollowTime, row.Groups, row.Via, row.Agent = nil, nil, nil, "", ""
		}
		return state.Bursts.Put(tx, row)
	})
	if err != nil {
		return nil, err
	}
	return s.GetBurst(ctx, &pb.GetBurstRequest{Name: r.GetName()})
}

// BringHome has what jobs have saved come home, of bursts with a follower, when it is time.
func (s *Server) BringHome(ctx context.Context) (err error) {
	var due []*ledgerv1.BurstRecord
	err = s.o.Ledger.View(func(tx *state.Tx) error {
		for row, err := range state.BurstsFollowed.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			if row.GetFollowTime().AsTime().After(s.o.Now()) {
				break
			}
			due = append(due, row)
		}
		return nil
	})
	for _, row := range due {
		if ferr := s.followBurst(ctx, row); ferr != nil {
			err = errors.Join(err, &mover.Error{Op: "bring home", Location: "burst " + row.GetName(), Err: ferr})
		}
	}
	return err
}

// followBurst submits a task for a follower, unless there is one, and says when the next one is due.
func (s *Server) followBurst(ctx context.Context, row *ledgerv1.BurstRecord) error {
	c := authz.Caller{Name: row.GetFollower().GetName(), UID: row.GetFollower().GetUid(), Groups: row.GetGroups(), Via: authz.Via(row.GetVia()), Agent: row.GetAgent()}
	var record *burst.Record
	err := s.o.Ledger.View(func(tx *state.Tx) (err error) { record, err = recordOf(tx, row.GetId()); return err })
	if err != nil {
		return err
	}
	b, err := record.Burst()
	if err != nil {
		return err
	}
	err = s.o.Ledger.Update(ctx, state.Durable, func(tx *state.Tx) error { // first: after a crash in between it comes home the next time
		now, err := state.Bursts.Get(tx, row.GetId())
		if err != nil || now.GetFollower() == nil {
			return err
		}
		now.FollowTime = timestamppb.New(s.o.Now().Add(b.Rhythm()))
		return state.Bursts.Put(tx, now)
	})
	if err != nil || record.Ready.IsZero() || record.State == burst.Leaving {
		return err
	}
	if under, err := s.syncsBack(row.GetName()); under || err != nil {
		return err
	}
	_, err = s.ApplyBurst(authz.With(ctx, c), &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_SYNC_BACK, Name: row.GetName()})
	return err
}

// syncsBack says whether a task is there that brings home what jobs of a burst have saved.
func (s *Server) syncsBack(name string) (is bool, err error) {
	err = s.o.Ledger.View(func(tx *state.Tx) error {
		f := state.TaskFilter{States: []pb.TaskState{task.Queued, task.Running, task.Paused}, Labels: map[string]string{burstLabel: name}}
		for t, err := range state.FindTasks(tx, f) {
			if err != nil {
				return err
			}
			is = is || t.GetSpec().GetBurst().GetStep() == pb.BurstStep_BURST_STEP_SYNC_BACK
		}
		return nil
	})
	return is, err
}

// readFile reads a file of the configuration that is not too large.
func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = &mover.Error{Op: "read", Location: name, Err: fmt.Errorf("%w: more than %d bytes", mover.ErrUsage, most)}
	}
	return text, err
}

// leasesOn are the holders that need what a burst has in its bucket, and those that say so by a label, each with its lease and its owner: any account may
// name a holder. A label counts for a burst that is not younger than its lease: see MayLabel.
func (s *Server) leasesOn(tx *state.Tx, b *burst.Burst, since time.Time) (holders []string, err error) {
	at := b.Spec.Cloud.Tier + ":" + b.Prefix()
	for l, err := range state.Leases.All(tx, state.Range{}) {
		if err != nil {
			return nil, err
		}
		on := l.GetLocation() != "" && placement.Overlap(placement.Address(l.GetLocation(), l.GetNode(), s.o.Config()), placement.Address(at, "", s.o.Config()))
		labelled := l.GetLabels()[burstLabel] == string(b.Metadata.Name) && !l.GetCreateTime().AsTime().Before(since)
		if on || labelled {
			holders = append(holders, fmt.Sprintf("%s (lease %s of %s)", mover.Printable(l.GetHolder()), l.GetId(), state.User(l.GetOwner())))
		}
	}
	slices.Sort(holders)
	return holders, nil
}
