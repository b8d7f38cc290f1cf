package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/tiering/checkpoint"
)

// Result is what a copy of a checkpoint has come to.
type Result struct {
	Already bool // it was there before
	Bytes   int64
	Sent    int64 // bytes that were moved: the rest was there, from a try before or as an identical file of another checkpoint
	Linked  int64 // bytes that an identical file of another checkpoint has
	Took    time.Duration
	Level   mover.Level
	Aside   string // where what had the name is kept, of a restore; "" is nothing
}

// Carry brings a checkpoint of one folder to another, under its name. What it returns without an error is there, whole and checked. state is told of
// each step; nil is told nothing.
func (s *Site) Carry(ctx context.Context, from *Folder, name string, to *Folder, state func(checkpoint.State)) (Result, error) {
	found, err := from.look(ctx, name)
	if err != nil {
		return Result{}, err
	}
	return s.carry(ctx, from, found, to, state)
}

// carry is Carry of a checkpoint as it was found.
func (s *Site) carry(ctx context.Context, from *Folder, found checkpoint.Found, to *Folder, state func(checkpoint.State)) (Result, error) {
	if state == nil {
		state = func(checkpoint.State) {}
	}
	return s.carrying(from, found, to, state).run(ctx)
}

func (s *Site) carrying(from *Folder, found checkpoint.Found, to *Folder, state func(checkpoint.State)) *carrying {
	return &carrying{Site: s, from: from, to: to, found: found, save: SaveOf(found), began: time.Now(), state: state, sums: map[string]uint64{}, linked: map[string]bool{}, level: mover.Read}
}

// run makes the copy, if the target does not have it.
func (c *carrying) run(ctx context.Context) (Result, error) {
	if !c.found.Complete {
		return Result{}, incomplete(c.from, c.found)
	}
	there, held, err := c.to.held(ctx, c.found.Name, c.save)
	if err != nil {
		return Result{}, err
	}
	if held {
		return Result{Already: true, Bytes: c.found.Bytes, Level: there.Commit.Level}, nil
	}
	if c.restores {
		if already, err := c.already(ctx); already || err != nil {
			return Result{Already: already, Bytes: c.found.Bytes, Level: c.level}, err
		}
	}
	c.keeps = c.restores || c.brings && !c.follows(there)
	c.state(checkpoint.Copying)
	switch {
	case !c.found.Dir:
		err = c.file(ctx)
	case c.to.root != nil:
		err = c.onDisk(ctx)
	default:
		err = c.inStore(ctx, there)
	}
	c.result.Bytes, c.result.Took, c.result.Level = c.found.Bytes, time.Since(c.began), c.level
	return c.result, err
}

// carrying is one copy of one checkpoint.
type carrying struct {
	*Site
	from, to *Folder
	found    checkpoint.Found
	save     string
	began    time.Time
	state    func(checkpoint.State)
	result   Result
	restores bool // what has the name at the target is kept aside
	brings   bool // and so is that, unless it is an older copy
	keeps    bool // as it has turned out

	linked map[string]bool // files that are those of another checkpoint

	mu    sync.Mutex
	sums  map[string]uint64 // guarded by mu: of files that were moved, or are the same as those of another checkpoint
	level mover.Level       // guarded by mu: the least
}

// file copies a checkpoint that is a single file. Its record is beside it, and comes last.
func (c *carrying) file(ctx context.Context) error {
	err := c.copy(ctx, engine.Request{Work: engine.Copy, Source: c.from.child(c.found.Name), Target: c.to.child(c.there())}, "")
	if err != nil {
		return err
	}
	c.state(checkpoint.Copied)
	if err := c.same(ctx); err != nil {
		return err
	}
	top, err := c.to.Top(ctx)
	if err != nil {
		return err
	}
	record, err := c.compare(ctx, top, c.there())
	if err != nil {
		if errors.Is(err, mover.ErrCorrupt) {
			err = errors.Join(err, c.removeAll(ctx, c.to.child(c.there())))
		}
		return err
	}
	text, err := record.Encode()
	if err != nil {
		return err
	}
	if c.to.root != nil {
		if err := c.publish(c.there()); err != nil {
			return err
		}
	}
	return c.record(ctx, c.to, checkpoint.RecordOf(c.found.Name, false), text)
}

// there is what the checkpoint is called at the target until it is whole.
func (c *carrying) there() string {
	if c.to.root == nil {
		return c.found.Name
	}
	return c.found.Name + building
}

// copy moves bytes. Files are those of the set, without those that are named.
func (c *carrying) copy(ctx context.Context, r engine.Request, what string, except ...string) error {
	common := c.Request
	r.Jobs, r.Bandwidth, r.Memory, r.StateDir, r.OnNoSpace, r.Logger = common.Jobs, common.Bandwidth, common.Memory, common.StateDir, common.OnNoSpace, c.Log
	r.Lead = common.Lead
	r.Observer = seeing{c, what}
	if r.Verify = mover.Read; c.to.root == nil {
		r.Verify = mover.Server
	}
	var err error
	if r.Filter, err = without(except); err != nil {
		return err
	}
	t, err := engine.Start(ctx, r, c.Open)
	if err != nil {
		return c.gone(err)
	}
	report, err := t.Wait()
	c.result.Sent += report.Bytes
	return c.gone(err)
}

// gone makes of the error of a copy what it means for a checkpoint: what is not there any more has been superseded.
func (c *carrying) gone(err error) error {
	if errors.Is(err, mover.ErrNotExist) && c.from.root != nil {
		if _, statErr := c.from.root.Lstat(c.found.Name); errors.Is(statErr, mover.ErrNotExist) {
			return fmt.Errorf("%w (%w)", ErrSuperseded, err)
		}
		return fmt.Errorf("%w: files of it are gone: %w", mover.ErrChanged, err)
	}
	return err
}

// seeing collects the checksums of what is moved.
type seeing struct {
	*carrying
	below string // put before the names; "" is nothing
}

// Item implements engine.Observer.
func (s seeing) Item(it engine.Item) {
	if o := s.Request.Observer; o != nil {
		o.Item(it)
	}
	if it.Err != nil || it.Kind != mover.File || !it.HasCRC || it.Op == plan.Remove {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.below + it.Name
	if !s.found.Dir {
		name = s.found.Name
	}
	s.sums[name] = it.CRC
	s.level = min(s.level, it.Level)
}

// State implements engine.Observer.
func (s seeing) State(phase engine.Phase, why string) {
	if o := s.Request.Observer; o != nil {
		o.State(phase, why)
	}
	if phase == engine.Paused || phase == engine.Waiting {
		s.log().Warn("a checkpoint waits", "name", mover.Printable(s.found.Name), "to", s.to.String(), "why", why)
	}
}

// without is a filter of everything but some names.
func without(names []string) (*plan.Filter, error) {
	var rules []plan.Rule
	for _, name := range names {
		rules = append(rules, plan.Rule{Pattern: "/" + literal.Replace(name)})
	}
	if rules == nil {
		return nil, nil
	}
	return plan.NewFilter(rules, nil)
}

// literal writes a name as a pattern that matches it alone.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`)

// same says whether the source is what it was when the copy began. One that is gone by now was, if the copy is: each file of it
// was held to its identity while it was read.
func (c *carrying) same(ctx context.Context) error {
	now, is, err := checkpoint.Look(ctx, c.from, c.from.Profile, c.found.Name)
	switch {
	case err != nil:
		return err
	case is && now.Print == c.found.Print, is && now.Save == c.found.Save:
		return nil
	case !is && !c.found.Tree.Loose:
		return nil
	case !is:
		return ErrSuperseded
	}
	return &mover.Error{Op: "copy", Location: c.from.String(), Name: c.found.Name, Err: fmt.Errorf("%w: it was written again meanwhile", mover.ErrChanged)}
}

// compare holds what is at the target to what was seen at the source, and to the checksums that this has a record of. It returns the record.
func (c *carrying) compare(ctx context.Context, tree checkpoint.Tree, at string) (checkpoint.Commit, error) {
	there := checkpoint.CommitOf(tree, at)
	meant := checkpoint.CommitOf(c.found.Tree, c.found.Name)
	if len(there.Files) != len(meant.Files) {
		return there, c.unlike("it has %d files at the target, and should have %d", len(there.Files), len(meant.Files))
	}
	if !c.found.Dir { // it is called so when it is whole
		there.Files[0].Name = c.found.Name
	}
	known := map[string]uint64{}
	if c.found.Commit != nil {
		for _, f := range c.found.Commit.Files {
			if f.HasCRC {
				known[f.Name] = f.CRC
			}
		}
	}
	for i, f := range meant.Files {
		at := &there.Files[i]
		timed := !c.found.Tree.Loose && !tree.Loose && !c.linked[f.Name]
		if at.Name != f.Name || at.Size != f.Size || timed && !checkpoint.SameTime(at.Modified, f.Modified) {
			return there, c.unlike("%s is not what it was when the copy began", mover.Printable(f.Name))
		}
		if tree.Loose {
			at.Modified = f.Modified // that of the object says when it came
		}
		sum, has := c.sums[f.Name]
		if !has {
			var err error
			if sum, err = c.hash(ctx, at.Name); err != nil {
				return there, err
			}
		}
		at.CRC, at.HasCRC = sum, true
		if want, is := known[f.Name]; is && want != sum {
			return there, &mover.Error{Op: "copy", Location: c.from.String(), Name: mover.Join(c.found.Name, f.Name), Err: fmt.Errorf("%w: its record has another one", mover.ErrCorrupt)}
		}
	}
	there.Created, there.Save, there.Level, there.From, there.Took = time.Now().UTC().Truncate(time.Second), c.save, c.level, c.from.String(), time.Since(c.began)
	if c.found.Commit != nil {
		there.Tags = c.found.Commit.Tags
	}
	return there, nil
}

func (c *carrying) unlike(format string, args ...any) error {
	return &mover.Error{Op: "copy", Location: c.from.String(), Name: c.found.Name, Err: mover.Errorf(mover.ErrChanged, format, args...)}
}

// apart are the files of a set that do not come with the rest.
func apart(more ...string) (names []string) {
	for _, name := range append(more, checkpoint.Committed) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
