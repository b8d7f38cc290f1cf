package burstserver

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/deploy/prices"
	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
)

// recordMost bounds the JSON of a record: years of checkpoints that come home every hour.
const recordMost = 4 << 20

// recordID is that of a record of package burst.
var recordID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// newestBurst is the newest burst of a name; mover.ErrNotExist is none.
func newestBurst(tx *state.Tx, name string) (*ledgerv1.BurstRecord, error) {
	for row, err := range state.BurstsByName.All(tx, state.Range{Prefix: []string{name}, Reverse: true}) {
		return row, err
	}
	return nil, noBurst(name)
}

func noBurst(name string) error {
	return &mover.Error{Op: "find", Location: "burst " + mover.Printable(name), Err: refusal(mover.ErrNotExist, "there is no such burst")}
}

// textOf is the record of a burst as JSON.
func textOf(tx *state.Tx, id string) ([]byte, error) {
	row, err := state.BurstTexts.Get(tx, id)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(row.GetDeflated())), recordMost+1))
	if err != nil || len(text) > recordMost {
		return nil, fmt.Errorf("%w: the record of burst %s: %d bytes: %w", mover.ErrCorrupt, id, len(text), err)
	}
	return text, nil
}

// recordOf is the record of a burst.
func recordOf(tx *state.Tx, id string) (*burst.Record, error) {
	text, err := textOf(tx, id)
	if err != nil {
		return nil, err
	}
	r := &burst.Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%w: the record of burst %s: %w", mover.ErrCorrupt, id, err)
	}
	return r, nil
}

func deflated(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// readRecord reads a record that a lead sends: it may be anything.
func readRecord(text []byte) (*burst.Record, *burst.Burst, error) {
	if len(text) > recordMost {
		return nil, nil, mover.Usagef("a record of %d bytes; at most %d are kept", len(text), recordMost)
	}
	r := &burst.Record{}
	if err := json.Unmarshal(text, r); err != nil || !recordID.MatchString(r.ID) || !slices.Contains(burst.States(), r.State) {
		return nil, nil, mover.Usagef("this is no record of a burst")
	}
	b, err := r.Burst()
	return r, b, err
}

// putBurst stores a record, durably: what a lead keeps under its fence, and what was charged here under none.
func (s *Server) putBurst(ctx context.Context, f fence, text []byte, also func(tx *state.Tx, was *ledgerv1.BurstRecord, r *burst.Record) (*ledgerv1.BurstRecord, error)) error {
	r, b, err := readRecord(text)
	if err != nil {
		return err
	}
	small, err := deflated(text)
	if err != nil {
		return err
	}
	return s.o.Ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		if err := f.holds(tx); err != nil {
			return err
		}
		was, err := newestBurst(tx, string(b.Metadata.Name))
		if ignoreMissing(err) != nil {
			return err
		}
		row, err := also(tx, was, r)
		if err != nil {
			return err
		}
		if row.State = string(r.State); r.State.Ended() {
			row.Follower, row.FollowTime = nil, nil
		}
		row.ChangeTime = timestamppb.New(s.o.Now())
		if err := state.Bursts.Put(tx, row); err != nil {
			return err
		}
		return state.BurstTexts.Put(tx, &ledgerv1.BurstText{Id: r.ID, Deflated: small})
	})
}

// mayKeep says whether a task may put a record in the place of what there is, and returns its row then.
func (s *Server) mayKeep(tx *state.Tx, t *pb.Task, was *ledgerv1.BurstRecord, r *burst.Record) (*ledgerv1.BurstRecord, error) {
	work := t.GetSpec().GetBurst()
	if was.GetId() == r.ID {
		if from := burst.State(was.GetState()); from != r.State && !from.May(r.State) {
			return nil, &mover.Error{Op: "keep", Location: "burst " + work.GetName(), Err: fmt.Errorf("%w: it is %s, and can not be %s", mover.ErrConflict, from, r.State)}
		}
		was.Task = t.GetId()
		return was, nil
	}
	adopts := work.GetStep() == pb.BurstStep_BURST_STEP_ADOPT && r.ID == work.GetAdopt()
	switch _, err := state.Bursts.Get(tx, r.ID); {
	case ignoreMissing(err) != nil:
		return nil, err
	case err == nil, was != nil && !burst.State(was.GetState()).Ended(), r.Adopted != adopts, !adopts && work.GetStep() != pb.BurstStep_BURST_STEP_UP, r.State != burst.Declared:
		return nil, &mover.Error{Op: "keep", Location: "burst " + work.GetName(), Err: fmt.Errorf("%w: the record is that of another one", mover.ErrConflict)}
	}
	made := s.o.Now()
	if last := was.GetCreateTime(); last != nil && !made.After(last.AsTime()) {
		made = last.AsTime().Add(time.Nanosecond) // the newest is the last, whatever the clock says
	}
	return &ledgerv1.BurstRecord{Id: r.ID, Name: work.GetName(), Team: work.GetTeam(), Owner: t.GetOwner(), Task: t.GetId(), CreateTime: timestamppb.New(made)}, nil
}

// pricesOf is the price book of a region, as a text.
func (s *Server) pricesOf(region string) (name string, text []byte, err error) {
	name = region + ".yaml"
	if dir := s.o.Config().Burst.Prices; dir != "" {
		name = filepath.Join(dir, name)
		text, err = readFile(name, yamldoc.TextMost)
		return name, text, err
	}
	if text, err = prices.Books.ReadFile(name); err != nil {
		err = fmt.Errorf("%w: no prices of %s come with this program; name a directory that has a file %s in the configuration (burst.prices)", mover.ErrNotExist, mover.Printable(region), mover.Printable(name))
	}
	return name, text, err
}

// admissionText are the rules by which a job may burst, as a text.
func (s *Server) admissionText() (name string, text []byte, err error) {
	file := s.o.Config().Burst.Admission
	if file == "" {
		return "the usual rules", []byte(burst.DefaultAdmission), nil
	}
	text, err = readFile(file, yamldoc.TextMost)
	return file, text, err
}

// admitted is mover.ErrRefused where no rule admits a burst, however much it sends: only an estimate knows how much that is.
func (s *Server) admitted(b *burst.Burst) error {
	name, text, err := s.admissionText()
	if err != nil {
		return err
	}
	rules, err := burst.ReadAdmission(name, text)
	if err != nil {
		return err
	}
	return rules.Admit(b, math.MaxInt64).Err()
}

func (s *Server) book(region string) (*pricing.Book, error) {
	name, text, err := s.pricesOf(region)
	if err != nil {
		return nil, err
	}
	return pricing.Read(name, text)
}
