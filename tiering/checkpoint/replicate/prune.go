package replicate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// Tier is what one folder has, and what retention says of it.
type Tier struct {
	*Folder
	Verdicts []checkpoint.Verdict
	saves    map[string]string // by name
	read     map[string]bool   // names of those that Assure has found to be as they were
}

// Trust is the usual one of a Site that removes by itself, after each checkpoint that comes: to read all that stay each time would be several times what came.
const Trust = 24 * time.Hour

// Judge says what would stay in folders that have checkpoints of one run, and what not. It reads none: see Assure.
func Judge(ctx context.Context, folders []*Folder, k checkpoint.Keep) ([]Tier, error) {
	tiers := make([]Tier, len(folders))
	for i, f := range folders {
		tiers[i] = Tier{Folder: f, saves: map[string]string{}, read: map[string]bool{}}
		for found, err := range checkpoint.Each(ctx, f, f.Profile) {
			if err != nil {
				return nil, err
			}
			if !found.Complete {
				continue // it may be on its way
			}
			tiers[i].saves[found.Name] = SaveOf(found)
			h := checkpoint.Held{Name: found.Name, Step: found.Step, Saved: found.Current, Named: found.View.Names(found.Name)}
			if c := found.Commit; c != nil {
				h.Verified, h.Unread, h.Tagged = c.Verified(), !c.Summed(), len(c.Tags) > 0
			}
			tiers[i].Verdicts = append(tiers[i].Verdicts, checkpoint.Verdict{Held: h})
		}
	}
	judge(tiers, k)
	return tiers, nil
}

// judge asks retention for all tiers.
func judge(tiers []Tier, k checkpoint.Keep) {
	where := map[Save]int{} // in how many folders it is verified, and was read
	for _, t := range tiers {
		for _, v := range t.Verdicts {
			if v.Verified && !v.Unread {
				where[Save{v.Name, t.saves[v.Name]}]++
			}
		}
	}
	for i := range tiers {
		held := tiers[i].held()
		for j, h := range held {
			elsewhere := where[Save{h.Name, tiers[i].saves[h.Name]}]
			if h.Verified && !h.Unread {
				elsewhere--
			}
			held[j].Second = elsewhere > 0
		}
		tiers[i].Verdicts = k.Judge(held, len(tiers) > 1)
	}
}

// held are the checkpoints of which it is said.
func (t Tier) held() (all []checkpoint.Held) {
	for _, v := range t.Verdicts {
		all = append(all, v.Held)
	}
	return all
}

// Assure has retention rely on nothing that is damaged: of what others would go for, it reads what was not verified within Trust, each once. What is not as its record says
// counts no more from then on, here and for every later look, and is told.
func (s *Site) Assure(ctx context.Context, tiers []Tier, k checkpoint.Keep) error {
	for {
		damaged := false
		for _, t := range tiers {
			names, err := s.damaged(ctx, t, k)
			if err != nil {
				return err
			}
			damaged = damaged || len(names) > 0
		}
		if !damaged {
			return nil
		}
		judge(tiers, k)
	}
}

// damaged reads what retention relies on, and has what is damaged count no more.
func (s *Site) damaged(ctx context.Context, t Tier, k checkpoint.Keep) (names []string, err error) {
	for _, name := range k.Relies(t.Verdicts) {
		if t.read[name] {
			continue
		}
		why, err := s.recheck(ctx, t, name)
		if err != nil {
			return nil, err
		}
		if why == "" {
			t.read[name] = true
			continue
		}
		s.log().Warn("a checkpoint is damaged, and does not count any more", "name", mover.Printable(name), "in", t.String(), "why", why)
		names = append(names, name)
		for i := range t.Verdicts {
			if v := &t.Verdicts[i]; v.Name == name {
				v.Verified = false
			}
		}
	}
	return names, nil
}

// recheck reads a checkpoint that was not verified within Trust, and writes down what it has found. why is what is wrong with it. What nothing is known of is not read: what it has now may
// be damaged already.
func (s *Site) recheck(ctx context.Context, t Tier, name string) (why string, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	found, is, err := t.still(ctx, name)
	switch {
	case err != nil:
		return "", err
	case !is || !found.Complete || found.Commit == nil:
		return cmp.Or(found.Why, "it is gone"), nil
	case !found.Commit.Summed():
		return "what it had in it when it came is not known", nil
	case found.Commit.ReadWithin(s.Trust, now):
		return "", nil
	}
	c := *found.Commit
	read, err := s.sums(ctx, t.Folder, found, uncache)
	if err != nil {
		return "", err
	}
	for _, f := range c.Files {
		at := slices.IndexFunc(read, func(r checkpoint.Committing) bool { return r.Name == f.Name })
		if read[at].CRC != f.CRC {
			why = f.Name + " has other bytes than when it was verified"
		}
	}
	if why != "" {
		c.Level, c.Checked = mover.Unchecked, time.Time{}
	} else {
		c.Checked = now
	}
	text, err := c.Encode()
	if err != nil {
		return "", err
	}
	return why, s.record(ctx, t.Folder, checkpoint.RecordOf(name, found.Dir), text)
}

// still finds a checkpoint of which retention has said that it goes, if it is the same one still.
func (t Tier) still(ctx context.Context, name string) (found checkpoint.Found, is bool, err error) {
	found, is, err = checkpoint.Look(ctx, t, t.Profile, name)
	if err == nil && is && SaveOf(found) != t.saves[name] {
		err = &mover.Error{Op: "remove", Location: t.String(), Name: name, Err: fmt.Errorf("%w: it was saved again", mover.ErrChanged)}
	}
	return found, is, err
}

// Remove removes a checkpoint of which retention has said that it goes. It is not there from the first step on.
func (s *Site) Remove(ctx context.Context, t Tier, name string) error {
	found, is, err := t.still(ctx, name)
	if err != nil || !is {
		return err
	}
	beside := checkpoint.RecordOf(name, false)
	if t.root != nil {
		if err := t.removeWhole(name); err != nil || found.Dir {
			return err
		}
		return ignoreGone(t.root.Remove(beside))
	}
	for found.Complete && found.Mark != "" && found.Dir { // as long as something in it says that it is complete, nothing else goes
		if err := s.removeAll(ctx, t.child(mover.Join(name, found.Mark))); err != nil {
			return err
		}
		if found, is, err = checkpoint.Look(ctx, t, t.Profile, name); err != nil || !is {
			return err
		}
	}
	if err := s.removeAll(ctx, t.child(name)); err != nil || found.Dir {
		return err
	}
	return s.removeAll(ctx, t.child(beside))
}

func ignoreGone(err error) error {
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	return err
}

// removeAll removes what is there, and is content when nothing is.
func (s *Site) removeAll(ctx context.Context, l location.Location) error {
	r := s.Request
	r.Logger = s.Log
	_, err := engine.RemoveAll(ctx, l, r, s.Open)
	return ignoreGone(err)
}

// removeWhole takes the name away, and then what had it.
func (f *Folder) removeWhole(name string) error {
	gone := name + leaving
	if err := f.root.RemoveAll(gone); err != nil {
		return err
	}
	if err := f.root.Rename(name, gone); err != nil {
		return err
	}
	if err := atomicfile.SyncIn(f.root, "."); err != nil {
		return err
	}
	return f.root.RemoveAll(gone)
}
