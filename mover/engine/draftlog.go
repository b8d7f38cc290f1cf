package engine

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/transfer"
)

// sharedJournal is a journal that also reports large drafts to the service. It reports the token
// of a draft before the first write, and its parts when they are on stable storage.
type sharedJournal struct {
	transfer.Journal
	pair   *pair
	pieces bool // parts can be taken over

	mu     sync.Mutex
	drafts map[uint64]*keptDraft // by id in the journal; guarded by mu
}

// keptDraft is what the service is to know of a draft.
type keptDraft struct {
	token  mover.Token
	record journal.Record // its receipts are those not yet reported
	number uint64         // of the next piece
}

// partsAtOnce bounds a piece.
const partsAtOnce = 2000

// sharedJournal is the journal that this pair's transfer gets.
func (p *pair) keeping() transfer.Journal {
	if p.lead().SaveDraft == nil {
		return p.journal
	}
	k := &sharedJournal{Journal: p.journal, pair: p, pieces: !p.target.Capabilities().Store, drafts: map[uint64]*keptDraft{}}
	for id, token := range p.adopted {
		k.drafts[id] = &keptDraft{token: token}
	}
	return k
}

// Begin implements transfer.Journal. If the service refuses a draft, because another
// lead has taken over, no record of it remains: its caller has to drop it.
func (k *sharedJournal) Begin(ctx context.Context, r journal.Record) (uint64, error) {
	id, err := k.Journal.Begin(ctx, r)
	if err != nil || r.Token == "" && k.pieces {
		return id, err
	}
	d := &keptDraft{token: r.Token, record: r}
	if r.Token == "" {
		d.token = intention(r.Name)
	}
	d.record.Receipts = nil
	k.mu.Lock()
	k.drafts[id] = d
	k.mu.Unlock()
	if err := k.pair.lead().SaveDraft(ctx, Draft{Pair: k.pair.index, Token: d.token}, true); err != nil {
		k.mu.Lock()
		delete(k.drafts, id)
		k.mu.Unlock()
		return 0, errors.Join(err, k.Journal.Clear(context.WithoutCancel(ctx), id))
	}
	return id, nil
}

// intentionMark begins what is kept instead of a token while an upload is being
// begun. If the store's answer is lost, only its name leads to the upload.
const intentionMark = "begun:"

func intention(name string) mover.Token {
	return mover.Token(intentionMark + base64.RawURLEncoding.EncodeToString([]byte(name)))
}

// intended is the name of an intention.
func intended(t mover.Token) (name string, ok bool) {
	text, ok := strings.CutPrefix(string(t), intentionMark)
	b, err := base64.RawURLEncoding.DecodeString(text)
	return string(b), ok && err == nil && len(b) > 0 && mover.ValidName(string(b))
}

// Part implements transfer.Journal.
func (k *sharedJournal) Part(ctx context.Context, id uint64, r mover.Receipt) error {
	if err := k.Journal.Part(ctx, id, r); err != nil || !k.pieces {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.drafts[id]; d != nil {
		d.record.Receipts = append(d.record.Receipts, r)
	}
	return nil
}

// DurableUpTo implements transfer.Journal. It may report a part that came after the mark:
// the run that takes the part over compares its checksum.
func (k *sharedJournal) DurableUpTo(ctx context.Context, m journal.Mark, ids ...uint64) error {
	if err := k.Journal.DurableUpTo(ctx, m, ids...); err != nil {
		return err
	}
	for _, id := range ids {
		for {
			d, more := k.piece(id)
			if !more {
				break
			}
			if err := k.pair.lead().SaveDraft(ctx, d, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// piece takes what the service was not told of a draft.
func (k *sharedJournal) piece(id uint64) (Draft, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.drafts[id]
	if d == nil || len(d.record.Receipts) == 0 {
		return Draft{}, false
	}
	r := d.record
	n := min(len(r.Receipts), partsAtOnce)
	r.Receipts, d.record.Receipts = r.Receipts[:n], r.Receipts[n:]
	d.number++
	return Draft{k.pair.index, d.token, [][]byte{journal.Encode(r)}, d.number}, true
}

// Clear implements transfer.Journal.
func (k *sharedJournal) Clear(ctx context.Context, ids ...uint64) error {
	if err := k.Journal.Clear(ctx, ids...); err != nil {
		return err
	}
	for _, id := range ids {
		k.mu.Lock()
		d := k.drafts[id]
		delete(k.drafts, id)
		k.mu.Unlock()
		if d == nil {
			continue
		}
		if err := k.pair.lead().SaveDraft(ctx, Draft{Pair: k.pair.index, Token: d.token}, false); err != nil {
			return err
		}
	}
	return nil
}

// takeOver deals with the drafts that an earlier lead kept. Those that this host's
// journal goes on with are left to it: then that lead was here, and its process has
// ended. Of others the parts that are stored are taken over, or else they are dropped.
func (p *pair) takeOver(ctx context.Context) error {
	lead := p.lead()
	for _, d := range lead.InheritedDrafts {
		if d.Pair != p.index || p.journal.needs(d.Token) {
			continue
		}
		if name, ok := intended(d.Token); ok {
			if err := p.intends(ctx, name, d.Token); err != nil {
				return err
			}
			continue
		}
		adopted, err := p.adopt(ctx, d)
		if err != nil {
			return err
		}
		if adopted {
			continue
		}
		if err := p.target.Drop(ctx, d.Token); err != nil {
			return err
		}
		p.dropped = append(p.dropped, d.Token)
		if lead.SaveDraft != nil {
			if err := lead.SaveDraft(ctx, Draft{Pair: d.Pair, Token: d.Token}, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// intends notes in our journal that an earlier lead had begun an upload of that name, as
// if it had been begun here: it is looked for with the strays, and once more at the end.
func (p *pair) intends(ctx context.Context, name string, token mover.Token) error {
	if p.journal.wanted(name) {
		return nil
	}
	id, err := p.journal.adopt(ctx, journal.Record{Name: name})
	if err != nil {
		return err
	}
	if p.adopted == nil {
		p.adopted = map[uint64]mover.Token{}
	}
	p.adopted[id] = token
	return nil
}

// adopt notes in our journal what is stored of a draft. Drafts in a store can not be read
// back, and another process may still write to them: they are not adopted.
func (p *pair) adopt(ctx context.Context, d Draft) (bool, error) {
	r, ok := together(d)
	if !ok || p.target.Capabilities().Store {
		return false, nil
	}
	id, err := p.journal.adopt(ctx, r)
	if err != nil {
		return false, err
	}
	if p.adopted == nil {
		p.adopted = map[uint64]mover.Token{}
	}
	p.adopted[id] = d.Token
	return true, nil
}

// together puts the pieces of a draft into one record. One that does not fit is not
// believed, which costs that its parts are moved again.
func together(d Draft) (whole journal.Record, ok bool) {
	for i, piece := range d.Pieces {
		r, err := journal.Decode(piece)
		if err != nil || r.Token != d.Token || i > 0 && (r.Source != whole.Source || r.PartBytes != whole.PartBytes || r.Name != whole.Name) {
			continue
		}
		receipts := append(whole.Receipts, r.Receipts...)
		whole = r
		whole.Receipts = receipts
	}
	return whole, len(whole.Receipts) > 0
}
