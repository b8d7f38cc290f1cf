package state

import (
	"bytes"
	"iter"
	"slices"
	"sort"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
)

// TaskFilter says which tasks, and in which order. The zero value is all, newest first.
type TaskFilter struct {
	States  []datamovev1.TaskState // none is all
	Project string                 // "" is all
	Owner   string                 // as User makes it; "" is all
	Node    string                 // of node-local tiers; "" is all
	Labels  map[string]string      // that a task must have, or, with the owner, a wish that waits for it
	After   string                 // id of the task before the first one; "" begins at the beginning
	Oldest  bool                   // first
}

// The facets by which tasks are found, with a value each.
const (
	facetState   = "state"
	facetProject = "project"
	facetOwner   = "owner"
	facetLabel   = "label"
	facetQueued  = "queued" // of tasks that wait: their class
)

func facets(m *datamovev1.Task) [][]string {
	keys := [][]string{
		{facetState, m.GetState().String()},
		{facetProject, m.GetSpec().GetProject()},
		{facetOwner, User(m.GetOwner())},
	}
	if m.GetState() == datamovev1.TaskState_TASK_STATE_QUEUED {
		keys = append(keys, []string{facetQueued, m.GetSpec().GetClass().String()})
	}
	for name, value := range m.GetSpec().GetLabels() {
		keys = append(keys, []string{facetLabel, label(name, value)})
	}
	return keys
}

// wishFacets are those by which the task is found that a wish waits for.
func wishFacets(m *ledgerv1.Wish) (keys [][]string) {
	for name, value := range m.GetLease().GetLabels() {
		keys = append(keys, []string{facetLabel, label(name, value)})
	}
	if len(keys) > 0 {
		keys = append(keys, []string{facetOwner, User(m.GetLease().GetOwner())})
	}
	return keys
}

func label(name, value string) string { return name + "\x00" + value }

// everything says whether a filter lets all tasks through.
func (f TaskFilter) everything() bool {
	return len(f.States) == 0 && f.Project == "" && f.Owner == "" && f.Node == "" && len(f.Labels) == 0
}

// FindTasks yields tasks that a filter lets through. It reads the ids under each thing
// that is asked for, and no task that is not yielded but for another node; all of them it reads as they lie.
func FindTasks(tx *Tx, f TaskFilter) iter.Seq2[*datamovev1.Task, error] {
	if f.everything() {
		r := Range{Reverse: !f.Oldest}
		if f.After != "" {
			r.After = token(appendKey(nil, f.After))
		}
		return Tasks.All(tx, r)
	}
	return func(yield func(*datamovev1.Task, error) bool) {
		for id, err := range findIDs(tx, f) {
			var task *datamovev1.Task
			if err == nil {
				task, err = Tasks.get(tx, id)
			}
			if err == nil {
				var is bool
				if is, err = f.labelled(tx, task); err == nil && (!is || f.Node != "" && f.Node != task.GetSpec().GetNode()) {
					continue
				}
			}
			if !yield(task, err) || err != nil {
				return
			}
		}
	}
}

// labelled says whether one has all labels, and is of the owner: the task, or a wish that
// waits for it.
func (f TaskFilter) labelled(tx *Tx, t *datamovev1.Task) (bool, error) {
	if len(f.Labels) == 0 || f.fits(t.GetOwner(), t.GetSpec().GetLabels()) {
		return true, nil
	}
	for w, err := range StageWaiters.All(tx, Range{Prefix: []string{t.GetId()}}) {
		if err != nil || f.fits(w.GetLease().GetOwner(), w.GetLease().GetLabels()) {
			return err == nil, err
		}
	}
	return false, nil
}

func (f TaskFilter) fits(owner *datamovev1.Account, labels map[string]string) bool {
	return (f.Owner == "" || f.Owner == User(owner)) && HasLabels(labels, f.Labels)
}

// HasLabels says whether all of the labels that are wanted are there.
func HasLabels(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if had, ok := labels[name]; !ok || had != value {
			return false
		}
	}
	return true
}

// CountTasks counts them.
func CountTasks(tx *Tx, f TaskFilter) (n int, err error) {
	if len(f.Labels) > 0 {
		for _, err := range FindTasks(tx, f) {
			if err != nil {
				return 0, err
			}
			n++
		}
		return n, nil
	}
	for _, err := range findIDs(tx, f) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// OldestQueued returns the task of a class that waits in the queue for the longest
// time, or nil when none waits.
func OldestQueued(tx *Tx, class datamovev1.TaskClass) (*datamovev1.Task, error) {
	base := appendKey(tasksBy.prefix(), facetQueued, class.String())
	page, _, err := tx.page(span{base: base, prefix: base}, 1)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	return Tasks.get(tx, page[0].key)
}

// findIDs yields the keys of tasks that are in all sets of a filter.
func findIDs(tx *Tx, f TaskFilter) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		sets := f.sets(tx)
		var from []byte
		if f.After != "" {
			from = appendKey(nil, f.After)
		}
		for {
			id, err := meet(sets, from)
			if err != nil {
				yield(nil, err)
			}
			if err != nil || id == nil || !yield(id, nil) {
				return
			}
			from = id
		}
	}
}

// sets returns what a filter asks for: a task is in all of them.
func (f TaskFilter) sets(tx *Tx) (sets []set) {
	under := func(facet, value string) *cursor {
		base := appendKey(tasksBy.prefix(), facet, value)
		return &cursor{tx: tx, span: span{base: base, prefix: base, reverse: !f.Oldest}, more: true}
	}
	waitedFor := func(facet, value string) *cursor {
		base := appendKey(wishesBy.prefix(), facet, value)
		return &cursor{tx: tx, span: span{base: base, prefix: base, reverse: !f.Oldest}, more: true, deep: true}
	}
	if f.Project != "" {
		sets = append(sets, set{under(facetProject, f.Project)})
	}
	if f.Owner != "" {
		of := set{under(facetOwner, f.Owner)}
		if len(f.Labels) > 0 {
			of = append(of, waitedFor(facetOwner, f.Owner))
		}
		sets = append(sets, of)
	}
	for name, value := range f.Labels {
		sets = append(sets, set{under(facetLabel, label(name, value)), waitedFor(facetLabel, label(name, value))})
	}
	var states set
	for _, s := range f.States {
		states = append(states, under(facetState, s.String()))
	}
	if len(states) > 0 {
		sets = append(sets, states)
	}
	if len(sets) == 0 {
		base := Tasks.row(nil)
		sets = append(sets, set{{tx: tx, span: span{base: base, prefix: base, reverse: !f.Oldest}, more: true}})
	}
	return sets
}

// meet returns the first id beyond from that is in all sets, nil for none.
func meet(sets []set, from []byte) ([]byte, error) {
	id, err := sets[0].seek(from, true)
	for agreed := 1; err == nil && id != nil && agreed < len(sets); {
		for i := range sets {
			var next []byte
			next, err = sets[i].seek(id, false)
			if err != nil || !bytes.Equal(next, id) {
				id, agreed = next, 0
				break
			}
			agreed = i + 1
		}
	}
	return id, err
}

// set is the ids under any of some cursors, which go the same way.
type set []*cursor

// seek returns the first id at from, or beyond it.
func (s set) seek(from []byte, beyond bool) (first []byte, err error) {
	for _, c := range s {
		id, err := c.seek(from, beyond)
		if err != nil {
			return nil, err
		}
		if id != nil && (first == nil || c.before(id, first)) {
			first = id
		}
	}
	return first, nil
}

// cursor goes through the ids below one prefix, and only forth.
type cursor struct {
	tx   *Tx
	span span
	page []found // what is read and not yet passed
	more bool    // there is something behind page
	size int     // of the last page
	deep bool    // an id is the first part of several keys
}

func (c *cursor) seek(from []byte, beyond bool) ([]byte, error) {
	for {
		c.pass(from, beyond)
		if len(c.page) > 0 {
			return c.page[0].key, nil
		}
		if !c.more {
			return nil, nil
		}
		c.size = min(max(firstPage, 2*c.size), lastPage)
		c.span.from, c.span.beyond = c.start(from, beyond), beyond
		var err error
		if c.page, c.more, err = c.tx.page(c.span, c.size); err != nil {
			return nil, err
		}
		for i, f := range c.page {
			if c.deep {
				c.page[i].key = f.key[:len(f.key)-len(after(f.key, 1))]
			}
		}
	}
}

// start is where the keys begin that are wanted: before all of one id, or behind them.
func (c *cursor) start(from []byte, beyond bool) []byte {
	if from != nil && c.deep && beyond != c.span.reverse {
		return append(bytes.Clone(from), 0xff) // no part begins so: they are ids
	}
	return from
}

// pass drops what lies before from, and from itself where beyond it is wanted.
func (c *cursor) pass(from []byte, beyond bool) {
	if from == nil {
		return
	}
	c.page = c.page[sort.Search(len(c.page), func(i int) bool {
		return c.before(from, c.page[i].key) || !beyond && bytes.Equal(from, c.page[i].key)
	}):]
}

func (c *cursor) before(a, b []byte) bool {
	return (bytes.Compare(a, b) < 0) != c.span.reverse && !slices.Equal(a, b)
}
