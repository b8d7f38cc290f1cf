package worker

import (
	"context"
	"fmt"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/units"
)

// Transfer does what the engine does for a task: it compares the sources with the target, and copies if it may. The
// bytes of helpers and of other nodes count.
func (j *Job) Transfer(ctx context.Context) (engine.Report, error) {
	r, err := j.Request()
	if err != nil {
		return engine.Report{}, err
	}
	if r.ExpectedManifest, err = j.expect(ctx); err != nil {
		return engine.Report{}, err
	}
	r.Lead.SaveDraft, r.Lead.InheritedDrafts = j.saveDraft, j.inheritedDrafts()
	if j.swarm != nil {
		r.Lead.Swarm = j.swarm
	}
	if j.order.GetMayCrew() {
		r.Lead.Helpers = func(pair int) transfer.Helpers { return &helpers{j.agent, pair} }
	}
	task, err := engine.Start(ctx, r, j.Open)
	if err != nil {
		return engine.Report{}, err
	}
	j.Progress(task)
	report, err := task.Wait()
	report.Notes = append(report.Notes, j.swarm.notes()...)
	if r.Work == engine.Verify { // nothing is moved: what counts is what was read
		report.Bytes = task.Snapshot().BytesDone
	}
	if err != nil && report.Failed > 0 && ctx.Err() == nil {
		err = &someFailed{report.Failed, err}
	}
	return report, err
}

// ItemsFailed is the error of a task of which n items failed; it is of the kind of the gravest of their errors.
func ItemsFailed(n int64, gravest error) error { return &someFailed{n, gravest} }

// someFailed is the end of a task of which items failed.
type someFailed struct {
	n   int64
	err error
}

func (e *someFailed) Error() string {
	return fmt.Sprintf("%s failed; the gravest: %v", units.Plural(e.n, "item", "items"), e.err)
}
func (e *someFailed) Unwrap() error { return e.err }

func (j *Job) saveDraft(ctx context.Context, d engine.Draft, on bool) error {
	_, err := j.agent.Note(ctx, &agentv1.NoteRequest{Draft: &agentv1.KeptDraft{Pair: int32(d.Pair), Token: string(d.Token), Pieces: d.Pieces, Number: d.Number}, On: on})
	return FromAgent(ctx, err)
}

func (j *Job) inheritedDrafts() (drafts []engine.Draft) {
	for _, d := range j.order.GetOver() {
		drafts = append(drafts, engine.Draft{Pair: int(d.GetPair()), Token: mover.Token(d.GetToken()), Pieces: d.GetPieces()})
	}
	return drafts
}

// helpers is the other agents, through ours. It is a transfer.Helpers of one pair.
type helpers struct {
	agent agent
	pair  int
}

func (c *helpers) Wanted(ctx context.Context) (others int, err error) {
	r, err := c.agent.Wanted(ctx, &agentv1.WantedRequest{})
	return int(r.GetAgents()), FromAgent(ctx, err)
}

func (c *helpers) Give(ctx context.Context, work *transfer.Work) (*transfer.Reply, error) {
	b, err := work.Encode()
	if err != nil {
		return nil, err
	}
	r, err := c.agent.Hand(ctx, &agentv1.HandRequest{
		Pair: int32(c.pair), Work: b, Bytes: work.Bytes(), Entries: work.Entries(), Parts: work.Parts != nil,
	})
	switch {
	case err != nil:
		return nil, FromAgent(ctx, err)
	case r.GetNobody() && len(r.GetOver()) > 0:
		return nil, &transfer.Begun{Over: r.GetOver()}
	case r.GetNobody():
		return nil, transfer.ErrNobody
	case r.GetSilent():
		return nil, transfer.ErrSilent
	}
	return transfer.DecodeReply(r.GetReply())
}
