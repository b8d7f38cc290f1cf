package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine/rate"
	"datamove.dev/mover/fairshare"
)

// maxMessage is the largest message of a worker: a batch.
const maxMessage = 64<<20 + 1<<20

// Serve implements agentv1.WorkerServiceServer.
func (p *process) Serve(stream agentv1.WorkerService_ServeServer) error {
	if err := stream.Send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Job{Job: p.job}}); err != nil {
		return err
	}
	go func() {
		for {
			st, err := stream.Recv()
			if err != nil {
				return
			}
			p.hears(st)
		}
	}()
	for {
		select {
		case o := <-p.orders:
			if err := stream.Send(o); err != nil {
				return err
			}
		case o := <-p.asks:
			if err := stream.Send(o); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// hears notes how the process does.
func (p *process) hears(st *agentv1.WorkerStatus) {
	p.counted(st.GetCounts())
	if d := p.describer; d != nil && st.GetWhy() != "" {
		d.of.waitsFor(st.GetPhase(), st.GetWhy())
	}
	p.mu.Lock()
	w := p.waits
	p.limited.Add(time.Now(), rate.Work{Bytes: st.GetLimitedBytes()})
	limited := p.limited.Read().Bytes
	sessions := []*session{p.lead}
	for _, s := range p.batches {
		sessions = append(sessions, s)
	}
	p.mu.Unlock()
	for _, s := range sessions {
		if s != nil {
			s.update(st, w, limited)
		}
	}
	if st.GetFirstByteTime() != nil || st.GetWhy() != "" {
		p.agent.hurry()
	}
}

const (
	confirmPause = 200 * time.Millisecond // between two tries to reach the coordinator
	confirmQuiet = 2 * time.Second        // for which they are not told
)

// Mine implements agentv1.WorkerServiceServer: it asks the coordinator, for as long as
// that takes.
func (p *process) Mine(ctx context.Context, r *agentv1.MineRequest) (*agentv1.MineResponse, error) {
	req := &agentv1.ConfirmRequest{Task: p.task.GetId(), Batch: r.GetBatch(), Epoch: r.GetEpoch(), Holder: r.GetHolder()}
	answer := &agentv1.MineResponse{}
	err := p.insist(p.traced(ctx, r.GetBatch()), func(ctx context.Context) error {
		confirmed, err := p.agent.link.Confirm(ctx, req)
		answer.Over = confirmed.GetOver()
		return err
	})
	if p.agent.turns.alone(p.charges) {
		answer.Pass = durationpb.New(passTime)
	}
	return answer, err
}

// insist makes a call until it is answered. A coordinator that can write nothing down,
// because its disk is full, is waited for, too: the task has room.
func (p *process) insist(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	begun, told := time.Now(), false
	for {
		err := api.FromStatus(call(ctx))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, mover.ErrUnreachable) && !errors.Is(err, mover.ErrTransient) && !errors.Is(err, mover.ErrFull) {
			if told {
				p.agent.log.InfoContext(ctx, "the coordinator has answered, and the task goes on", "task", p.task.GetId(), "waited", time.Since(begun).Round(time.Second))
			}
			return err
		}
		if !told && time.Since(begun) >= confirmQuiet {
			told = true
			p.agent.log.WarnContext(ctx, "a task waits for the answer of the coordinator, for as long as that takes; cancel it to end that", "task", p.task.GetId(), "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(confirmPause):
		}
	}
}

// Turn implements agentv1.WorkerServiceServer.
func (p *process) Turn(ctx context.Context, r *agentv1.TurnRequest) (*agentv1.TurnResponse, error) {
	if p.agent.turns.alone(p.charges) {
		return &agentv1.TurnResponse{Pass: durationpb.New(passTime)}, nil
	}
	charges := make([]fairshare.Charge, 0, len(p.charges))
	for _, c := range p.charges {
		c.Bytes, c.Ops = r.GetBytes(), r.GetOps()
		if r.GetShared() && !c.Write {
			c.Bytes = 0
		}
		charges = append(charges, c)
	}
	width := fairshare.Width{Most: int(r.GetMost()), Fill: int(r.GetFill())}
	release, w, err := p.agent.turns.acquire(ctx, p.flow, fairshare.Cost{Bytes: r.GetBytes(), Ops: r.GetOps()}, width, charges)
	p.agent.limitWaited(p.charges, w.limit)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.queue += w.queue
	p.waits.limit += w.limit
	p.turn++
	ops := r.GetOps()
	p.turns[p.turn] = func(c fairshare.Cost) { c.Ops = ops; release(c) }
	return &agentv1.TurnResponse{Turn: p.turn}, nil
}

// Pay implements agentv1.WorkerServiceServer: it waits for the limits of the source alone.
func (p *process) Pay(ctx context.Context, r *agentv1.PayRequest) (*agentv1.PayResponse, error) {
	var charges []fairshare.Charge
	limited := false
	for _, c := range p.charges {
		if !c.Write {
			limited = limited || p.agent.turns.limits(fairshare.Direction{Endpoint: c.Endpoint})
			c.Bytes = max(r.GetBytes(), 0)
			charges = append(charges, c)
		}
	}
	if !limited {
		return &agentv1.PayResponse{Pass: durationpb.New(passTime)}, nil
	}
	waited, err := p.agent.turns.buckets.Wait(ctx, charges)
	p.agent.limitWaited(charges, waited)
	p.mu.Lock()
	p.waits.limit += waited
	p.mu.Unlock()
	return &agentv1.PayResponse{}, err
}

// EndTurn implements agentv1.WorkerServiceServer.
func (p *process) EndTurn(_ context.Context, r *agentv1.EndTurnRequest) (*agentv1.EndTurnResponse, error) {
	p.mu.Lock()
	release := p.turns[r.GetTurn()]
	delete(p.turns, r.GetTurn())
	p.mu.Unlock()
	if release == nil {
		return nil, fmt.Errorf("%w: there is no turn %d", mover.ErrUsage, r.GetTurn())
	}
	release(fairshare.Cost{Bytes: max(r.GetMoved(), 0)})
	return &agentv1.EndTurnResponse{}, nil
}

// releaseTurns ends the turns of a process that is gone.
func (p *process) releaseTurns() {
	p.mu.Lock()
	turns := p.turns
	p.turns = map[uint64]func(fairshare.Cost){}
	p.mu.Unlock()
	for _, release := range turns {
		release(fairshare.Cost{})
	}
}

// Wanted implements agentv1.WorkerServiceServer.
func (p *process) Wanted(ctx context.Context, _ *agentv1.WantedRequest) (*agentv1.WantedResponse, error) {
	if p.lead == nil {
		return nil, errNoLead
	}
	others, err := p.lead.want(ctx)
	return &agentv1.WantedResponse{Agents: others}, err
}

var errNoLead = fmt.Errorf("%w: this process leads no task", mover.ErrUsage)

// Hand implements agentv1.WorkerServiceServer.
func (p *process) Hand(ctx context.Context, r *agentv1.HandRequest) (*agentv1.HandResponse, error) {
	if p.lead == nil {
		return nil, errNoLead
	}
	p.mu.Lock()
	p.given++
	req := &agentv1.GiveRequest{
		Task: p.task.GetId(), Epoch: p.epoch, Batch: strconv.FormatUint(p.epoch, 36) + "." + strconv.FormatUint(p.given, 36),
		Work: r.GetWork(), Bytes: r.GetBytes(), Entries: r.GetEntries(), Pair: r.GetPair(), Parts: r.GetParts(), Heard: p.heard,
	}
	p.heard = nil
	p.mu.Unlock()
	var answer *agentv1.GiveResponse
	err := p.insist(p.traced(ctx, ""), func(ctx context.Context) (err error) { answer, err = p.agent.link.Give(ctx, req); return err })
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.heard = append(p.heard, req.GetBatch())
	p.mu.Unlock()
	if answer.GetError() != "" {
		return nil, &mover.Error{Op: "move on another node", Err: errors.Join(mover.KindNamed(answer.GetErrorKind()), errors.New(answer.GetError()))}
	}
	return &agentv1.HandResponse{Reply: answer.GetReply(), Nobody: answer.GetNobody(), Silent: answer.GetSilent(), Over: answer.GetOver()}, nil
}

// Note implements agentv1.WorkerServiceServer.
func (p *process) Note(ctx context.Context, r *agentv1.NoteRequest) (*agentv1.NoteResponse, error) {
	req := &agentv1.KeepRequest{Task: p.task.GetId(), Epoch: p.epoch, Draft: worker.FormatDraft(r.GetDraft()), On: r.GetOn(), Number: r.GetDraft().GetNumber()}
	if pieces := r.GetDraft().GetPieces(); len(pieces) > 0 {
		req.Piece = pieces[0]
	}
	return &agentv1.NoteResponse{}, p.insist(p.traced(ctx, ""), func(ctx context.Context) error {
		_, err := p.agent.link.Keep(ctx, req)
		return err
	})
}
