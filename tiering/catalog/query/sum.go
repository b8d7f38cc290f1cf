package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

// Key is what sums are made by.
type Key string

// The keys.
const (
	Owner   Key = "owner"
	Group   Key = "group"
	Project Key = "project"
	Kind    Key = "kind"
	Age     Key = "age"  // since it was of use to anybody
	Size    Key = "size" // of files
	Class   Key = "class"
	Dir     Key = "dir" // directly below the directory that is asked about
)

// Keys are all of them.
var Keys = []Key{Owner, Group, Project, Kind, Age, Size, Class, Dir}

// Sum is what the files of one group are together. Of a file that has several names each counts with its share of the bytes.
type Sum struct {
	Group  []string // one for each key; "" is not known
	Files  int64
	Dirs   int64
	Others int64
	Bytes  int64 // of contents
	Stored int64 // that are allocated
}

func (s *Sum) add(f *dataset.File) {
	switch f.Kind {
	case mover.File:
		names := int64(max(1, f.Links))
		s.Files, s.Bytes, s.Stored = s.Files+1, s.Bytes+f.Size/names, s.Stored+f.Stored/names
	case mover.Dir:
		s.Dirs++
	default:
		s.Others++
	}
}

func (s *Sum) addSum(o *Sum) {
	s.Files, s.Dirs, s.Others, s.Bytes, s.Stored = s.Files+o.Files, s.Dirs+o.Dirs, s.Others+o.Others, s.Bytes+o.Bytes, s.Stored+o.Stored
}

// groupsMost is how many groups a table has at most.
const groupsMost = 100_000

// Sum sums what is meant by keys; without any, all of it is one group, which is there even when nothing is meant. The largest come
// first, and ages and sizes in their own order.
func (r Reader) Sum(ctx context.Context, q Question, by []Key) ([]Sum, error) {
	a, err := r.answer(q)
	if err != nil {
		return nil, err
	}
	tables := make([]table, workers())
	for i := range tables {
		tables[i] = table{teller: a.teller(), by: by, groups: map[string]*Sum{}}
	}
	if err := a.read(ctx, func(worker int, f *dataset.File) error { return tables[worker].add(f) }); err != nil {
		return nil, err
	}
	all := tables[0].groups
	for i := range tables[1:] {
		for name, sum := range tables[i+1].groups {
			if was := all[name]; was != nil {
				was.addSum(sum)
			} else if all[name] = sum; len(all) > groupsMost {
				return nil, tooMany("groups", groupsMost)
			}
		}
	}
	if len(by) == 0 && len(all) == 0 {
		return []Sum{{}}, nil
	}
	sums := make([]Sum, 0, len(all))
	for _, s := range all {
		sums = append(sums, *s)
	}
	slices.SortFunc(sums, func(a, b Sum) int { return compareSums(by, &a, &b) })
	return sums, nil
}

// compareSums orders two lines of a table.
func compareSums(by []Key, a, b *Sum) int {
	for i, key := range by {
		if steps := key.steps(); steps != nil {
			rank := func(s *Sum) int { return slices.IndexFunc(steps, func(st step) bool { return st.name == s.Group[i] }) }
			if c := cmp.Compare(rank(a), rank(b)); c != 0 {
				return c
			}
		}
	}
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Files, a.Files), slices.Compare(a.Group, b.Group))
}

// table is the groups that one worker has found.
type table struct {
	*teller
	by     []Key
	groups map[string]*Sum
	words  []string
	name   []byte
}

func (t *table) add(f *dataset.File) error {
	at, meant, err := t.means(f)
	if !meant {
		return err
	}
	view := t.judge.View(f, at)
	t.words, t.name = t.words[:0], t.name[:0]
	for _, key := range t.by {
		word := t.group(key, f, at, &view)
		t.words, t.name = append(t.words, word), append(append(t.name, word...), 0)
	}
	sum := t.groups[string(t.name)]
	if sum == nil {
		if len(t.groups) == groupsMost {
			return tooMany("groups", groupsMost)
		}
		sum = &Sum{Group: slices.Clone(t.words)}
		t.groups[string(t.name)] = sum
	}
	sum.add(f)
	return nil
}

// group is the word of a file under a key.
func (t *table) group(key Key, f *dataset.File, at *policy.Facts, v *policy.View) string {
	switch key {
	case Owner:
		if f.Known.Has(mover.FactOwner) {
			return v.Owner
		}
	case Group:
		if f.Known.Has(mover.FactGroup) {
			return v.Group
		}
	case Project:
		return at.Project
	case Kind:
		return f.Kind.String()
	case Age:
		return stepOf(ages, int64(v.Idle))
	case Size:
		if f.Kind == mover.File {
			return stepOf(sizes, f.Size)
		}
	case Class:
		if len(v.Classes) > 0 {
			return v.Classes[0]
		}
	case Dir:
		return t.below(f)
	}
	return ""
}

// below is the directory that a file lies in, as far as it is directly below the one that is asked about; what lies directly in that is of "".
func (t *table) below(f *dataset.File) string {
	rest := f.Dir
	if t.Question.Dir != "" && mover.Within(rest, t.Question.Dir) {
		rest = strings.TrimPrefix(rest[len(t.Question.Dir):], "/")
	}
	if rest == "" && f.Kind == mover.Dir {
		rest = f.Base // itself
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

// step is a range of ages or sizes: what is less than its end, and no less than the end of the one before.
type step struct {
	end  int64
	name string
}

const endless = 1<<63 - 1

var (
	day  = int64(24 * time.Hour)
	ages = []step{{day, "< 1 day"}, {7 * day, "1–7 days"}, {30 * day, "7–30 days"}, {90 * day, "30–90 days"}, {180 * day, "90–180 days"},
		{365 * day, "180 days – 1 year"}, {2 * 365 * day, "1–2 years"}, {endless, "> 2 years"}}
	sizes = []step{{1, "empty"}, {4 << 10, "< 4 KiB"}, {64 << 10, "4–64 KiB"}, {1 << 20, "64 KiB – 1 MiB"}, {16 << 20, "1–16 MiB"}, {256 << 20, "16–256 MiB"},
		{1 << 30, "256 MiB – 1 GiB"}, {16 << 30, "1–16 GiB"}, {256 << 30, "16–256 GiB"}, {endless, "> 256 GiB"}}
)

func (k Key) steps() []step {
	switch k {
	case Age:
		return ages
	case Size:
		return sizes
	}
	return nil
}

func stepOf(steps []step, n int64) string {
	for _, s := range steps {
		if n < s.end {
			return s.name
		}
	}
	return steps[len(steps)-1].name
}
