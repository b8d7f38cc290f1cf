package telemetry

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"regexp"
	"sync"
	"time"
)

// What is said again and again: warnings and errors of one text by one logger.
const (
	repeatWindow = time.Minute
	repeatMost   = 10    // lines of one text in a window
	repeatTexts  = 1_000 // texts that are watched at a time
	sameMost     = time.Hour
)

// repeats knows which warnings were said lately. A line is a repetition of another when
// its level and its text are the same, and the logger has the same attributes: a
// thousand retries of a task have different names and errors, and are one thing that
// happens. Beyond ten in a minute lines are counted, not written; with the next line of
// any text after that minute the log tells how many.
//
// A line that is the same in all that it says, but for times and numbers in errors, is
// written after a minute, two, four and so on, up to an hour, with how often it was said.
type repeats struct {
	mu    sync.Mutex // guards all below
	seen  map[said]*window
	same  map[uint64]*fold // by what a line says
	sweep time.Time        // when windows have to be looked through
}

// said names a repetition.
type said struct {
	logger uint64 // attributes that the logger adds
	level  slog.Level
	text   string
}

// window is a minute of a repetition.
type window struct {
	until   time.Time
	lines   int
	missing int
	handler slog.Handler // which would have written them
}

// fold is a line that is said again and again.
type fold struct {
	until   time.Time     // when it may be written again
	pause   time.Duration // between the last line of it and until
	missing int
}

// limited is a handler that leaves repetitions out.
type limited struct {
	slog.Handler
	repeats *repeats
	logger  uint64
}

func quiet(h slog.Handler) slog.Handler {
	return limited{Handler: h, repeats: &repeats{seen: map[said]*window{}, same: map[uint64]*fold{}}}
}

// Handle implements slog.Handler.
func (h limited) Handle(ctx context.Context, r slog.Record) error {
	pass, over := h.repeats.note(said{h.logger, r.Level, r.Message}, r.Time, h.Handler)
	for _, o := range over {
		if err := o.handler.Handle(ctx, o.record); err != nil {
			return err
		}
	}
	if !pass {
		return nil
	}
	if r.Level >= slog.LevelWarn {
		missing, pass := h.repeats.folded(h.exact(&r), r.Time)
		if !pass {
			return nil
		}
		if missing > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("repeated", missing))
		}
	}
	return h.Handler.Handle(ctx, r)
}

var digits = regexp.MustCompile(`[0-9]+`)

// exact names all that a line says, but for times, and for numbers in errors: ports differ
// from one try to the next.
func (h limited) exact(r *slog.Record) uint64 {
	var sum maphash.Hash
	sum.SetSeed(seed)
	fmt.Fprintf(&sum, "%d %v %q", h.logger, r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		switch v := a.Value.Resolve(); {
		case v.Kind() == slog.KindDuration, v.Kind() == slog.KindTime:
		case a.Key == "err", a.Key == "why":
			fmt.Fprintf(&sum, " %q=%q", a.Key, digits.ReplaceAllString(v.String(), "#"))
		default:
			fmt.Fprintf(&sum, " %q=%q", a.Key, v.String())
		}
		return true
	})
	return sum.Sum64()
}

// folded says whether a line is to be written that says the same as others did, and how
// many of those were not.
func (r *repeats) folded(exact uint64, now time.Time) (missing int, pass bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.same[exact]
	switch {
	case f == nil && len(r.same) >= repeatTexts:
		return 0, true // so many different lines are no repetition
	case f == nil:
		r.same[exact] = &fold{until: now.Add(repeatWindow), pause: repeatWindow}
		return 0, true
	case now.Before(f.until):
		f.missing++
		return 0, false
	}
	missing = f.missing
	f.missing, f.pause = 0, min(2*f.pause, sameMost)
	f.until = now.Add(f.pause)
	return missing, true
}

var seed = maphash.MakeSeed()

// WithAttrs implements slog.Handler.
func (h limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	var sum maphash.Hash
	sum.SetSeed(seed)
	fmt.Fprintf(&sum, "%d%v", h.logger, attrs)
	return limited{h.Handler.WithAttrs(attrs), h.repeats, sum.Sum64()}
}

// WithGroup implements slog.Handler.
func (h limited) WithGroup(name string) slog.Handler {
	return limited{h.Handler.WithGroup(name), h.repeats, h.logger}
}

// ended is a line that tells of lines that were left out.
type ended struct {
	handler slog.Handler
	record  slog.Record
}

// note says whether a line is to be written, and what has to be told of others.
func (r *repeats) note(s said, now time.Time, h slog.Handler) (pass bool, over []ended) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.sweep) {
		over = r.end(now)
	}
	if s.level < slog.LevelWarn {
		return true, over
	}
	w := r.seen[s]
	if w == nil {
		if len(r.seen) >= repeatTexts {
			return true, over // so many different texts are no repetition
		}
		w = &window{until: now.Add(repeatWindow), handler: h}
		r.seen[s] = w
	}
	if w.lines >= repeatMost {
		w.missing++
		return false, over
	}
	w.lines++
	return true, over
}

// end forgets the windows that are over.
func (r *repeats) end(now time.Time) []ended {
	var over []ended
	r.sweep = now.Add(repeatWindow)
	maps.DeleteFunc(r.same, func(_ uint64, f *fold) bool { return now.Sub(f.until) > f.pause })
	for s, w := range r.seen {
		if now.Before(w.until) {
			if w.until.Before(r.sweep) {
				r.sweep = w.until
			}
			continue
		}
		delete(r.seen, s)
		if w.missing > 0 {
			line := slog.NewRecord(now, s.level, s.text, 0)
			line.AddAttrs(slog.Int("repeated", w.missing))
			over = append(over, ended{w.handler, line})
		}
	}
	return over
}
