package lifecycle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/link"
	"datamove.dev/tiering/burst/pricing"
)

// reserve sets the money of an estimate aside, once.
func (w *work) reserve(ctx context.Context, amount pricing.Money, why string) error {
	if limit := w.burst.Spec.Cap; limit > 0 && w.record.Reserved+amount > limit {
		return fmt.Errorf("%w: %s needs %v in all, and its own cap is %v: raise spec.cap, or let it do less", mover.ErrRefused, w.burst.Metadata.Name, w.record.Reserved+amount, limit)
	}
	out, err := w.Purse.Reserve(ctx, budget.Request{Team: string(w.burst.Spec.Team), Burst: w.record.ID, Amount: amount, Why: why, Key: fmt.Sprintf("reserve-%v", int64(w.record.Reserved))})
	if err != nil {
		return err
	}
	if out.Warning != nil {
		w.tell("warning: %s", out.Warning)
	}
	w.record.Reserved += amount
	return w.keep()
}

// more reserves some more than was estimated: a tenth, or a dollar.
func (w *work) more(ctx context.Context, least pricing.Money) error {
	amount := max(w.record.Reserved/10, pricing.Dollar, least)
	w.tell("it costs more than was estimated: %v more are reserved", amount)
	return w.reserve(ctx, amount, "more than was estimated")
}

// spend notes what was paid for. What was not reserved is reserved now; a bill can not be refused.
func (w *work) spend(ctx context.Context, key string, uses []pricing.Usage) (pricing.Money, error) {
	bill, err := w.Book.Bill(uses, nil, w.now())
	if err != nil || bill.Total == 0 {
		return 0, err
	}
	err = w.pay(ctx, bill.Total, uses[0].Why, key)
	return bill.Total, err
}

// pay has the ledger note what was spent. A bill can not be refused: where it is beyond what was reserved, that is told, and what is to begin next is refused.
func (w *work) pay(ctx context.Context, amount pricing.Money, why, key string) error {
	out, err := w.Purse.Charge(ctx, budget.Request{Team: string(w.burst.Spec.Team), Burst: w.record.ID, Amount: amount, Why: why, Key: key})
	if errors.Is(err, mover.ErrRefused) {
		w.tell("warning: %v", err)
		err = nil
	}
	if err == nil && !out.Repeated {
		w.record.Spent += amount
	}
	return err
}

// instances counts those that carry the tag of the burst: what runs costs from its start on, and what runs no more is charged up to now.
func (w *work) instances(ctx context.Context) error {
	all, err := w.Cloud.Instances(ctx)
	if errors.Is(err, mover.ErrPermission) {
		return nil // an account that may not see them does not count them
	}
	if err != nil {
		return err
	}
	runs := map[string]bool{}
	for _, i := range all {
		if i.Tags[burst.TagBurst] != w.record.ID || i.State != "running" && i.State != "pending" {
			continue
		}
		runs[i.ID] = true
		if !slices.ContainsFunc(w.record.Paid, func(p burst.Paid) bool { return p.What == i.ID }) {
			since := i.Since
			if since.Before(w.record.Made) {
				since = w.record.Made
			}
			w.record.Paid = append(w.record.Paid, burst.Paid{What: i.ID, Rate: pricing.EC2(i.Type), Until: since.UTC()})
		}
	}
	err = w.accrue(ctx)
	w.record.Paid = slices.DeleteFunc(w.record.Paid, func(p burst.Paid) bool { return p.Instance() && !runs[p.What] && p.Next.IsZero() })
	return err
}

// charge charges what runs by the hour, up to now.
func (w *work) charge(ctx context.Context) error {
	if w.record.Ready.IsZero() || w.Cloud == nil { // a coordinator that only keeps the accounts does not look for instances
		return w.accrue(ctx)
	}
	return w.instances(ctx)
}

// accrue charges what is known to run by the hour, up to now. What it is about to charge is on the shelf before, so that after a crash the same is charged, and not twice.
func (w *work) accrue(ctx context.Context) error {
	for i := range w.record.Paid {
		p := &w.record.Paid[i]
		if p.Next.IsZero() && w.now().Sub(p.Until) < time.Minute {
			continue
		}
		if p.Next.IsZero() {
			p.Next = w.now()
			if err := w.keep(); err != nil {
				return err
			}
		}
		_, err := w.spend(ctx, fmt.Sprintf("%s-%d", p.What, p.Until.UnixNano()), []pricing.Usage{p.Usage()})
		var missing *pricing.MissingError
		if errors.As(err, &missing) {
			w.tell("warning: %v: it is not charged", err)
			err = nil
		}
		if err != nil {
			return err
		}
		p.Until, p.Next = p.Next, time.Time{}
		if err := w.keep(); err != nil {
			return err
		}
	}
	return nil
}

// running notes that so much of something costs by the hour from now on; what it was before is charged.
func (w *work) running(ctx context.Context, what, rate string, bytes int64, since time.Time) error {
	i := slices.IndexFunc(w.record.Paid, func(p burst.Paid) bool { return p.What == what })
	if i < 0 && bytes == 0 {
		return nil
	}
	if i < 0 {
		w.record.Paid = append(w.record.Paid, burst.Paid{What: what, Rate: rate, Bytes: bytes, Until: since})
		return nil
	}
	err := w.accrue(ctx)
	w.record.Paid[i].Bytes = bytes
	return err
}

// stopped has nothing cost any more by the hour.
func (w *work) stopped(ctx context.Context) error {
	err := w.charge(ctx)
	if err == nil {
		w.record.Paid = nil
	}
	return err
}

// meter counts what passes a toll.
type meter struct {
	work *work
	rate string            // of bytes; "" costs nothing
	call string            // of requests
	seen func(bytes int64) // is told of all that has passed; may be nil

	mu       sync.Mutex // guards what follows
	bytes    int64
	requests int64
	paid     pricing.Money // of all that has passed
	noted    time.Time     // when it was charged last
	session  string
	n        int
}

const (
	noteEvery = 5 * time.Second
	noteMost  = pricing.Dollar
)

// toll asks for money before each part, and charges what has passed every few seconds, or each dollar: so much a kill -9 can have us forget, until AWS is asked.
func (w *work) toll(rate, call string) *meter {
	return &meter{work: w, rate: rate, call: call, noted: w.now(), session: rand.Text()}
}

var _ link.CostGate = (*meter)(nil).pass

func (m *meter) pass(ctx context.Context, bytes, requests int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	owed, err := m.owed(m.bytes+bytes, m.requests+requests)
	if err != nil {
		return err
	}
	team := string(m.work.burst.Spec.Team)
	err = m.work.Purse.Allow(ctx, team, m.work.record.ID, owed)
	if errors.Is(err, mover.ErrRefused) {
		if err = m.work.more(ctx, owed); err == nil {
			err = m.work.Purse.Allow(ctx, team, m.work.record.ID, owed)
		}
	}
	if err != nil {
		return err
	}
	m.bytes, m.requests = m.bytes+bytes, m.requests+requests
	if m.seen != nil {
		m.seen(m.bytes)
	}
	if owed < noteMost && m.work.now().Sub(m.noted) < noteEvery {
		return nil
	}
	return m.note(ctx, owed)
}

// owed is what so much costs, without what was charged of it. Guarded by mu.
func (m *meter) owed(bytes, requests int64) (pricing.Money, error) {
	uses := []pricing.Usage{{Rate: m.call, Amount: pricing.Requests(requests)}}
	if m.rate != "" {
		uses = append(uses, pricing.Usage{Rate: m.rate, Amount: pricing.Bytes(bytes)})
	}
	bill, err := m.work.Book.Bill(uses, nil, m.work.now())
	return bill.Total - m.paid, err
}

// note charges what is owed. Guarded by mu.
func (m *meter) note(ctx context.Context, owed pricing.Money) error {
	m.noted = m.work.now()
	if owed == 0 {
		return nil
	}
	m.n++
	why := fmt.Sprintf("%d bytes, %d requests over the link", m.bytes, m.requests)
	err := m.work.pay(ctx, owed, why, fmt.Sprintf("toll-%s-%d", m.session, m.n))
	if err == nil {
		m.paid += owed
	}
	return err
}

// close charges the rest.
func (m *meter) close(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	owed, err := m.owed(m.bytes, m.requests)
	if err != nil {
		return err
	}
	return m.note(context.WithoutCancel(ctx), owed)
}
