package replicate

import (
	"context"
	"time"

	"datamove.dev/tiering/checkpoint"
)

// Looker looks at a folder again and again, and remembers for how long things look as they do. Folder has to be given.
type Looker struct {
	*Folder
	Settle  time.Duration // nothing in a checkpoint may change for so long before it is complete; 0 is checkpoint.Quiet, and less is no time
	Guesses bool          // the framework is found out each time: the first checkpoint may not have been there
	Hurries bool          // what its framework has sealed is complete, however short it has been still

	sights checkpoint.Stability
	torn   map[string]torn
}

// Rest is how long it is between two looks that take so long: a second, or a hundred times that, but a minute is enough where it is ten times that.
func Rest(look time.Duration) time.Duration {
	return max(time.Second, min(time.Minute, 100*look), 10*look)
}

// torn is what a look into the files of a checkpoint has found.
type torn struct {
	print checkpoint.Print
	why   string
}

// Look is what a look has seen.
type Look struct {
	Seen     []Seen // the newest first
	Pointers []Pointer
	Trackers []string // the names of all, also of those that name nothing now
	Settled  bool     // nothing is on its way to be complete, as far as can be seen
}

// Seen is one checkpoint of a look.
type Seen struct {
	Name        string
	State       checkpoint.State // Seen, Settling or Complete
	Why         string           // it is not complete
	Print       checkpoint.Print
	Step, Made  int64
	Current     int64 // as that of checkpoint.Found
	Files       int64
	Bytes       int64
	Dir         bool
	Save        string // of a complete one, as the rest
	Tagged      bool
	Verified    bool // its record says that it is a copy that was checked
	markedWhole bool // the framework, or a record, says that it is
	sealed      bool // and says so when everything else is there
	moves       bool // it has changed within checkpoint.Quiet
}

// Pointer is a tracker, as it was read.
type Pointer struct {
	Name, Names, Text string
	Link              bool
	Written           int64 // ns
}

// Look looks once.
func (l *Looker) Look(ctx context.Context, now time.Time) (seen Look, err error) {
	if err := l.here(); err != nil {
		return seen, err
	}
	if l.Guesses {
		if l.Profile, err = checkpoint.Guess(ctx, l); err != nil {
			return seen, err
		}
	}
	var view checkpoint.View
	var tree checkpoint.Tree
	prints, known := map[string]checkpoint.Print{}, map[string]torn{}
	for found, err := range checkpoint.Glance(ctx, l, l.Profile) {
		if err != nil {
			return seen, err
		}
		prints[found.Name] = found.Print
		s := Seen{Name: found.Name, Print: found.Print, Step: found.Step, Made: found.Saved, Current: found.Current, Files: found.Files, Bytes: found.Bytes, Dir: found.Dir, Why: found.Why}
		if s.markedWhole = found.Complete && checkpoint.Speakable(found.Name); s.markedWhole {
			s.sealed = found.Sealed
			s.Save, s.Tagged, s.Verified = SaveOf(found), found.Commit != nil && len(found.Commit.Tags) > 0, found.Commit != nil && found.Commit.Verified()
			if known[found.Name], err = l.tornAt(ctx, found); err != nil {
				return seen, err
			}
		}
		seen.Seen = append(seen.Seen, s)
		view, tree = found.View, found.Tree
	}
	seen.Pointers = pointersOf(view, tree)
	for _, t := range view.Trackers {
		seen.Trackers = append(seen.Trackers, t.Name)
	}
	l.torn = known
	l.sights.Look(now, prints)
	seen.Settled = true
	for i := range seen.Seen {
		s := &seen.Seen[i]
		still, torn := l.Hurries && s.sealed || l.sights.Still(s.Name, now, l.settle()), known[s.Name]
		s.moves = !l.sights.Still(s.Name, now, checkpoint.Quiet)
		switch {
		case !s.markedWhole:
			s.State = checkpoint.Seen
		case !still || torn.print != s.Print:
			s.State = checkpoint.Settling
		case torn.why != "":
			s.State, s.Why = checkpoint.Seen, torn.why
		default:
			s.State = checkpoint.Complete
		}
		seen.Settled = seen.Settled && still && s.State != checkpoint.Settling
	}
	return seen, nil
}

// tornAt looks into the files of a checkpoint once nothing changes any more.
func (l *Looker) tornAt(ctx context.Context, found checkpoint.Found) (torn, error) {
	was := l.torn[found.Name]
	if was.print != found.Print && (l.Hurries && found.Sealed || l.sights.Same(found.Name, found.Print)) {
		why, err := checkpoint.Check(ctx, l, found)
		return torn{found.Print, why}, err
	}
	return was, nil
}

func (l *Looker) settle() time.Duration {
	if l.Settle == 0 {
		return checkpoint.Quiet
	}
	return max(0, l.Settle)
}

// pointersOf are the trackers of a look, with what stood in them.
func pointersOf(v checkpoint.View, t checkpoint.Tree) (all []Pointer) {
	for _, p := range v.Trackers {
		text, has := t.Texts[p.Name]
		if !has || p.Names == "" || !checkpoint.Speakable(p.Name) {
			continue
		}
		all = append(all, Pointer{Name: p.Name, Names: p.Names, Text: text, Link: t.IsLink(p.Name), Written: t.Written(p.Name)})
	}
	return all
}
