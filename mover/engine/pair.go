package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/backend/throttle"
	"datamove.dev/mover/engine/bufpool"
	"datamove.dev/mover/engine/concurrency"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
	"datamove.dev/mover/manifest"
)

// pair is one source and one target, open and locked.
type pair struct {
	request    *Request
	index      int // among Request.Names
	source     mover.Source
	target     mover.Backend
	owner      mover.WriterID
	gate       *concurrency.Gate
	humble     *humble       // nil where the source is believed
	shelf      manifestStore // nil where the target needs no manifest
	journal    *lazyJournal
	journalDir string
	adopted    map[uint64]mover.Token // drafts of a lead on another host, by id in the journal
	dropped    []mover.Token          // drafts of a lead on another host that are of no use
	untidy     error                  // why some of the drafts of others are still there
	spoolDir   string
	system     string          // of the source: its file system and root; "" of a bucket
	facts      journal.Facts   // of the last run of this pair
	held       context.Context // ends when the lock is lost; nil where none is needed
	overtook   bool            // the lock of a lead of another task, which is over
	unlock     func() error
	spent      bool // the next run needs nothing that is in the journal
	notes      []string
	need       int64       // bytes, of this pair and those before it, when the plan is complete
	grown      atomic.Bool // there was no room, and then there was

	sourceEntries, targetEntries atomic.Int64
}

// openPair opens and locks. On an error nothing stays open.
func openPair(ctx context.Context, r *Request, index int, src, dst location.Location, open Opener) (p *pair, err error) {
	p = &pair{request: r, index: index}
	defer func() {
		if err != nil {
			_ = p.close()
			p = nil
		}
	}()
	dir, err := p.makeSpool()
	if err != nil {
		return p, err
	}
	if err := p.openPlaces(ctx, src, dst, open); err != nil {
		return p, err
	}
	if err := p.identify(ctx, dir, src, dst); err != nil {
		return p, err
	}
	if r.DryRun || r.Work == Verify {
		return p, nil
	}
	return p, p.lock(ctx)
}

// makeSpool makes the folder for what a task must remember until its end.
func (p *pair) makeSpool() (stateDir string, err error) {
	if stateDir = p.request.StateDir; stateDir == "" {
		if stateDir, err = mover.StateDir(os.Getenv); err != nil {
			return "", err
		}
	}
	p.spoolDir = filepath.Join(stateDir, "spool")
	err = mover.MakeStateDir(p.spoolDir)
	if err != nil && p.request.StateDir == "" && (p.request.DryRun || p.request.Work == Verify) {
		p.spoolDir, err = os.TempDir(), nil // nothing of it has to outlive this process
	}
	return stateDir, err
}

func (p *pair) openPlaces(ctx context.Context, src, dst location.Location, open Opener) error {
	r := p.request
	open = patiently(open)
	look := OpenOptions{StateDir: r.StateDir, Logger: r.Logger, Reflink: r.Reflink, Layouts: r.Preserve.Has(mover.FactLayout), Buffers: bufpool.New(r.Memory)}
	write := look
	write.Write, write.Backup = !r.DryRun && r.Work != Verify, r.Backup
	if r.Manifest != "" {
		return p.openListed(ctx, dst, open, look)
	}
	source, err := openNamed(ctx, src, open, look)
	if r.ExpectedManifest != nil && errors.Is(err, mover.ErrNotExist) {
		err = mover.Unlike(err)
	}
	if errors.Is(err, mover.ErrNotExist) {
		if r.ExpectedManifest == nil && !r.AllowMissingSource {
			err = orNearby(ctx, err, src, open, look)
		}
		return &lacking{err}
	}
	if err != nil {
		return err
	}
	if _, single := source.(*singleFile); r.Follow && !single { // singleFile that is named is followed anyway
		if source, err = follow(source, src, open, look); err != nil {
			return err
		}
	}
	p.source = source
	if err := p.apart(ctx, src, dst, open, look); err != nil {
		return err
	}
	if _, single := source.(*singleFile); single && r.Work == Verify { // what it leads to is compared, as that of the source is
		if dst, err = followed(dst); err != nil {
			return err
		}
		open = finding(open)
	}
	if p.target, err = openTarget(ctx, source, dst, open, write); err != nil {
		return err
	}
	if err := p.apartBuckets(ctx, src, dst, open, look); err != nil {
		return err
	}
	p.wrap(source)
	if r.Work == Verify {
		return orNearby(ctx, p.targetThere(ctx), dst, open, look)
	}
	return nil
}

// targetThere is the error of a target that does not exist. Of a verify the user expects one; of other work it is made.
func (p *pair) targetThere(ctx context.Context) error {
	if at, is := p.target.(absent); is {
		return at.why
	}
	if one, is := mover.As[*singleFile](p.target); is && one.named {
		_, err := p.target.Stat(ctx, one.as)
		return err
	}
	return nil
}

// lacking is the error of a source that is not there.
type lacking struct{ error }

func (l *lacking) Unwrap() error { return l.error }

// wrap puts around both places what each of them needs.
func (p *pair) wrap(source mover.Backend) {
	p.gate = transfer.NewGate(source.Capabilities(), p.target.Capabilities(), p.request.Jobs)
	p.target, p.shelf = p.around(p.target, p.request.Work == Verify)
	source, _ = p.around(source, true)
	p.source = source
	s := p.lead().Swarm
	if expect := p.request.ExpectedManifest; expect != nil {
		var seen func() bool
		if s != nil && source.Capabilities().Remote { // each listing leaves a store
			seen = s.Relies
		}
		p.source = manifest.Expect(p.source, expect, seen)
	}
	if s != nil {
		p.source, p.target = s.Source(p.source, source), s.Target(p.target)
	}
	if p.distrusts() {
		p.humble = &humble{Source: p.source}
		p.source = p.humble
	}
	p.source = throttle.Source(p.source, p.request.Limiter)
}

// around adds patience to a place that is reached over a network, and to one that
// keeps less than there is the facts of its manifest.
func (p *pair) around(place mover.Backend, reads bool) (mover.Backend, manifestStore) {
	t, o := place.Capabilities(), retry.Options{Logger: p.request.Logger, Notify: p.gate.Throttled}
	if t.Store {
		place = retry.New(place, o)
	}
	s, ok := mover.As[manifestStore](place)
	if _, single := mover.As[*singleFile](place); !ok || single || !t.NeedsManifest {
		return place, nil // a single object has no tree that a manifest could describe
	}
	kept := patient{s, o}
	return kept.overlay(place, reads), kept
}

// identify names the task of this pair by its target, so that every run on the
// target knows what earlier ones left, and its journal by both ends.
func (p *pair) identify(ctx context.Context, dir string, src, dst location.Location) error {
	owner, self, err := ownerOf(ctx, p.target, dst)
	if err != nil {
		return err
	}
	if p.owner = owner; p.request.Lead != nil {
		p.owner.Epoch = p.request.Lead.Epoch
	}
	p.journalDir = filepath.Join(dir, "tasks", shortHash(whole(src)+"\x00"+whole(dst)+"\x00"+self))
	to := p.target.Capabilities()
	p.journal = newJournal(p.journalDir, journal.Options{KeepOnReboot: to.Store, Mount: to.Mount, Logger: p.request.Logger})
	if from, err := p.source.Stat(ctx, ""); err == nil && from.Dev != 0 {
		p.system = systemOf(&from)
	}
	return nil
}

const sticky = 0o1000

// ownerOf returns the identity of the writer of a target, and that of the target itself.
func ownerOf(ctx context.Context, target mover.Backend, l location.Location) (owner mover.WriterID, self string, err error) {
	root, err := target.Stat(ctx, "")
	if err != nil && !errors.Is(err, mover.ErrNotExist) {
		return owner, "", err
	}
	if one, single := mover.As[*singleFile](target); single && !one.named { // others of the same directory are other targets: their locks do not meet
		l = l.Child(one.name)
	}
	if self = l.String(); root.Ino != 0 { // one target under two paths is one target
		self = fmt.Sprintf("ino %d of %s", root.Ino, l.Base())
	}
	by := self
	if root.Ino != 0 && root.Mode&sticky != 0 { // accounts do not keep each other away there, and each has drafts of its own
		by = fmt.Sprintf("%s for uid %d", self, os.Geteuid())
	}
	return mover.WriterID{Task: shortHash(by), Epoch: uint64(time.Now().UnixMilli())}, self, nil
}

// whole is a location in words that mean the same from every working directory.
func whole(l location.Location) string {
	if !l.IsPath() {
		return l.String()
	}
	path, err := filepath.Abs(l.Path)
	if err != nil {
		return l.Path
	}
	return real(path)
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:16])
}

// openJournal reads what the last run of this pair left.
func (p *pair) openJournal(ctx context.Context) error {
	if err := p.journal.load(); err != nil {
		return err
	}
	if err := p.takeOver(ctx); err != nil {
		return err
	}
	if p.request.Delete {
		j, err := p.journal.get(true)
		if err != nil {
			return err
		}
		if p.facts, err = j.Facts(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// diff walks both sides and plans.
func (p *pair) diff(ctx context.Context) iter.Seq2[plan.Action, error] {
	o := p.planOptions()
	xattrs := (o.Compares(mover.FactXattrs) || o.ComparesAny(mover.FactsOfObject)) && !o.Full
	from, opts := mover.WalkOptions{Xattrs: xattrs}, mover.WalkOptions{Xattrs: xattrs || o.ComparesAny(mover.FactsOfObject)} // what is replaced may have been an object
	if f := p.request.Filter; f != nil {
		from.Skip, opts.Skip = f.Seen, f.Skip // Seen remembers which of the listed names there are
	}
	source := p.withMissing(counted(p.source.Walk(ctx, from), &p.sourceEntries))
	if p.unlock != nil {
		opts.Stray = func(s mover.Stray) { p.stray(ctx, s) }
	}
	source, target := p.guarded(ctx, source, counted(p.target.Walk(ctx, opts), &p.targetEntries))
	actions := p.spare(ctx, plan.Diff(source, target, o))
	if o.Humble {
		return withoutDevices(actions)
	}
	return actions
}

// withMissing ends a walk of the source with an error for each name of --files-from that it has not come by: what is missing in the
// source is an error, and nothing is removed after one.
func (p *pair) withMissing(walk iter.Seq2[mover.Entry, error]) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range walk {
			if !yield(e, err) || err != nil && e.Name == "" {
				return
			}
		}
		names, count := p.request.Filter.Missing(maxFailures)
		for i, name := range names {
			err := mover.ErrNotExist
			if more := count - len(names); more > 0 && i == len(names)-1 {
				err = fmt.Errorf("%w, nor are %d more names of the list", err, more)
			}
			if !yield(mover.Entry{Name: name, Kind: mover.File}, &mover.Error{Op: "find", Location: p.source.String(), Name: name, Err: err}) {
				return
			}
		}
	}
}

func (p *pair) planOptions() plan.Options {
	r, t := p.request, p.target.Capabilities()
	verify := r.Work == Verify
	o := plan.Options{
		Delete: r.Delete || verify, Full: r.CopyAll, CompareBy: r.CompareBy, Preserve: r.Preserve,
		Keeps: true, Both: t.FileAndDirShareName, Times: t.Times, Classes: verify,
		AnyKey: t.AnyKey && p.source.Capabilities().AnyKey,
	}
	if verify { // it asks what differs, and not how it is mended
		o.CompareBy = plan.ByContent
	} else {
		o.UpdateBytes = t.UpdateBytes
	}
	o.TargetKeeps = t.Keeps
	if t.NeedsManifest { // which keeps all facts of files
		o.TargetKeeps |= ^mover.FactsOfObject
	}
	s := p.source.Capabilities()
	o.SourceTimes = s.Times
	xattrs, both := s.Xattrs.Both(t.Xattrs)
	if p.humble != nil {
		o.Humble, xattrs = true, xattrs.Without(mover.XattrsOfPrivileges)
	}
	if o.Xattrs = xattrs; !both || !s.NeedsManifest && !s.Keeps.Has(mover.FactXattrs) {
		o.SourceKnows = ^mover.FactXattrs
	}
	return o
}

func (p *pair) transferOptions(t *run, w *watch) transfer.Options {
	r, lead := p.request, p.lead()
	o := transfer.Options{
		By: p.owner, Jobs: r.Jobs, Gate: p.gate, Plan: p.planOptions(), Level: r.Verify, Journal: p.keeping(),
		Observer: w, Counters: &t.counters, FailFull: r.OnNoSpace == NoSpaceFail, Released: r.Released, SpoolDir: p.spoolDir, Logger: r.Logger,
		Allow: func(n int64) error { return p.allow(r.MaxDelete, n) }, ConfirmLease: lead.ConfirmLease, AcquireSlot: lead.AcquireSlot,
	}
	if lead.Helpers != nil {
		o.Helpers = lead.Helpers(p.index)
	}
	if !p.target.Capabilities().Store { // there late is better, and no directory has times
		o.Tidy = p.tidy
	}
	return o
}

// stray drops a draft of an earlier run that the journal does not need. The lock
// says that its run is over.
func (p *pair) stray(ctx context.Context, s mover.Stray) {
	switch {
	case s.Owner.Task == p.owner.Task && p.older(s.Owner):
	case s.Owner == (mover.WriterID{}) && s.Name != "" && p.journal.wanted(s.Name):
	default:
		return // another run's
	}
	if p.journal.needs(s.Token) {
		return
	}
	if err := p.target.Drop(ctx, s.Token); err != nil && p.request.Logger != nil {
		p.request.Logger.WarnContext(ctx, "a draft of an earlier run can not be removed", "token", s.Token, "err", err)
	}
}

// counted counts the entries of a walk.
func counted(walk iter.Seq2[mover.Entry, error], n *atomic.Int64) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range walk {
			if err == nil {
				n.Add(1)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// completed keeps of the journal what the next run needs. After a run that was not
// clean, or did not come this far, that is all of it.
func (p *pair) completed(ctx context.Context, clean bool) error {
	if !clean {
		return nil
	}
	if err := cmp.Or(p.untidy, p.dropLeft(ctx)); err != nil {
		return err
	}
	if p.spent = !p.request.Delete; p.spent {
		return nil
	}
	if err := p.journal.close(true); err != nil { // of a clean run only the facts are of use
		return err
	}
	j, err := p.journal.get(true)
	if err != nil {
		return err
	}
	return j.SetFacts(ctx, journal.Facts{SourceSystem: p.system, Completed: time.Now().UTC(), Entries: p.sourceEntries.Load()})
}

// tidy drops the drafts of others while directories are still to get their times, which
// change when something in them goes. That one can not be dropped is said at the end.
func (p *pair) tidy(ctx context.Context) {
	p.untidy = errors.Join(p.dropUnused(ctx), p.dropLate(ctx))
}

// dropUnused drops the drafts of earlier runs that this one had no use for: their entries
// are gone from the source, or were moved into a draft that was begun later.
func (p *pair) dropUnused(ctx context.Context) error {
	for _, token := range p.dropped {
		if err := p.target.Drop(ctx, token); err != nil {
			return err
		}
	}
	for _, r := range p.journal.Left(ctx) {
		if r.Token == "" {
			continue
		}
		if err := p.target.Drop(ctx, r.Token); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// dropLeft is dropUnused that forgets them, and those that were published just before their
// run died. What was dropped before is dropped once more: a part that a dead run had sent
// still, and that comes late, brings an upload back (the documentation of
// AbortMultipartUpload tells so), and by now it has come.
func (p *pair) dropLeft(ctx context.Context) error {
	if err := p.dropUnused(ctx); err != nil {
		return err
	}
	var ids []uint64
	begun := map[string]bool{} // without a token: whether there is a draft is not known
	for id, r := range p.journal.Left(ctx) {
		if r.Token == "" {
			begun[r.Name] = true
		}
		ids = append(ids, id)
	}
	if err := p.dropBegun(ctx, begun); err != nil {
		return err
	}
	if len(ids) == 0 {
		return ctx.Err()
	}
	return p.forget(ctx, ids)
}

// dropLate drops what helpers of earlier leads have drafted after this one had walked
// past: they publish nothing, and drop it themselves unless they are killed before. Only
// directories are listed for it. In a bucket helpers begin nothing of their own.
func (p *pair) dropLate(ctx context.Context) error {
	if len(p.lead().Before) == 0 && !p.overtook {
		return nil
	}
	opts := mover.WalkOptions{Lazy: true, Skip: func(_ string, k mover.Kind) bool { return k != mover.Dir }, Stray: func(s mover.Stray) { p.stray(ctx, s) }}
	for _, err := range p.target.Walk(ctx, opts) {
		if err != nil {
			return err
		}
	}
	return nil
}

// forget clears records of the journal, of which the service may know.
func (p *pair) forget(ctx context.Context, ids []uint64) error {
	if err := p.journal.Clear(ctx, ids...); err != nil {
		return err
	}
	for _, id := range ids {
		token, ok := p.adopted[id]
		if keep := p.lead().SaveDraft; ok && keep != nil {
			if err := keep(ctx, Draft{Pair: p.index, Token: token}, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropBegun drops the uploads that a store began for a run that died before it was
// told so: the request may have been on its way still when this run looked for strays.
// Nothing is being drafted any more, so what is open under these names is that.
func (p *pair) dropBegun(ctx context.Context, names map[string]bool) (err error) {
	if len(names) == 0 {
		return nil
	}
	var mu sync.Mutex
	opts := mover.WalkOptions{Skip: func(string, mover.Kind) bool { return true }, Stray: func(s mover.Stray) {
		if s.Owner == (mover.WriterID{}) && names[s.Name] {
			dropErr := p.target.Drop(ctx, s.Token)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, dropErr)
		}
	}}
	for _, walkErr := range p.target.Walk(ctx, opts) {
		if walkErr != nil {
			return walkErr
		}
	}
	return err
}

func (p *pair) close() error {
	var errs []error
	if p.journal != nil {
		errs = append(errs, p.journal.close(p.spent))
	}
	if p.unlock != nil {
		errs = append(errs, p.unlock())
	}
	if p.source != nil {
		errs = append(errs, p.source.Close())
	}
	if p.target != nil {
		errs = append(errs, p.target.Close())
	}
	return errors.Join(errs...)
}
