package query_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/query"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

var project = catalog.Tree{Tier: "project"}

// seen is when all was first seen, and now when questions are asked.
var (
	seen = time.Unix(1_600_000_000, 0)
	now  = seen.Add(1000 * 24 * time.Hour)
)

// people are those of uid 1 to 3.
type people struct{}

func (people) User(n uint32) (string, error) {
	return map[uint32]string{1: "ada", 2: "bob", 3: "eve"}[n], nil
}
func (people) Group(n uint32) (string, error) { return map[uint32]string{10: "vision"}[n], nil }

// ground has a pinned dataset in d1.
type ground struct{ facts policy.Facts }

func (g *ground) At(f *dataset.File) *policy.Facts {
	dir := f.Dir
	g.facts = policy.Facts{Tier: "project", Project: "p-" + dir[:min(2, len(dir))], Pinned: mover.Within(dir, "d1")}
	return &g.facts
}

// world is a tree that was scanned, and its files.
func world(t testing.TB, files int) (query.Reader, []dataset.File) {
	random := rand.New(rand.NewPCG(3, 1))
	tree := mem.NewTree()
	for i := range files {
		e := mover.Entry{Name: fmt.Sprintf("d%d/e%d/f%05d%s", random.IntN(4), random.IntN(4), i, []string{".pt", ".log", ""}[random.IntN(3)]), Kind: mover.File,
			Known: mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactLinks, UID: 1 + uint32(random.IntN(4)), GID: 10 + uint32(random.IntN(2)), Nlink: 1,
			Mtime: mover.Time{Sec: seen.Unix() + random.Int64N(1000*24*3600)}}
		tree.Put(e, make([]byte, random.IntN(1<<random.IntN(20))))
	}
	src := mem.New(tree, mem.Options{})
	c, err := catalog.Open(t.TempDir(), catalog.Options{})
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, c.Close()) })
	for _, s := range []mover.Backend{mem.New(mem.NewTree(), mem.Options{}), src} { // so that all of it is new
		_, err = c.Scan(t.Context(), project, s, catalog.ScanOptions{Now: seen})
		must.Do(t, err)
	}
	var all []dataset.File
	for e, err := range src.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		all = append(all, dataset.FileOf(&e, seen.Unix()))
	}
	return query.Reader{Catalog: c, People: people{}, Ground: func() query.FactSource { return &ground{} }}, all
}

func idle(f dataset.File) time.Duration {
	return now.Sub(time.Unix(0, max(f.Mtime, seen.UnixNano())))
}

// questions are choices, and what they mean in other words.
var questions = []struct {
	choice policy.Choice
	means  func(dataset.File) bool
}{
	{policy.Choice{}, func(dataset.File) bool { return true }},
	{policy.Choice{Match: "{size: '>=1KiB', kind: file}"}, func(f dataset.File) bool { return f.Kind == mover.File && f.Size >= 1024 }},
	{policy.Choice{Match: "owner: [ada, 4]"}, func(f dataset.File) bool { return f.Kind == mover.File && (f.UID == 1 || f.UID == 4) }},
	{policy.Choice{Match: "{kind: file, idle: '>100d', name: '*.pt'}"}, func(f dataset.File) bool {
		return f.Kind == mover.File && idle(f) > 100*24*time.Hour && strings.HasSuffix(f.Base, ".pt")
	}},
	{policy.Choice{Match: "{size: '>512KiB', idle: '>900d'}", Any: true, Where: "owner != 'bob'"}, func(f dataset.File) bool {
		return (f.Size > 512<<10 || idle(f) > 900*24*time.Hour) && (f.UID != 2 || f.Kind != mover.File)
	}},
	{policy.Choice{Match: "pinned: true"}, func(f dataset.File) bool { return mover.Within(f.Dir, "d1") }},
	{policy.Choice{Match: "{class: [big]}", Classes: "[{name: big, match: {size: '>=256KiB'}}]"}, func(f dataset.File) bool { return f.Size >= 256<<10 }},
}

// What is found is what a plain reading of the same tree finds, in each order, below each directory, and for one account.
func TestQuery(t *testing.T) {
	r, all := world(t, 5000)
	for i, q := range questions {
		for _, dir := range []string{"", "d1", "d2/e3", all[7].Name()} {
			for _, own := range []uint32{0, 2} {
				asked := query.Question{Tree: project, Dir: dir, Choice: q.choice, Now: now}
				if own != 0 {
					asked.Owner = &own
				}
				want := slices.DeleteFunc(slices.Clone(all), func(f dataset.File) bool {
					theirs := f.Known.Has(mover.FactOwner) && f.UID != own
					return !q.means(f) || own != 0 && theirs || dir != "" && !mover.Within(f.Dir, dir) && (f.Name() != dir || f.Kind == mover.Dir)
				})
				t.Run(fmt.Sprint(i, " below ", dir, " of ", own), func(t *testing.T) {
					find(t, r, asked, want)
					sum(t, r, asked, want)
				})
			}
		}
	}
}

func names(files []dataset.File) (all []string) {
	for _, f := range files {
		all = append(all, f.Name())
	}
	return all
}

func find(t *testing.T, r query.Reader, asked query.Question, want []dataset.File) {
	found := func(by query.Order, limit int) []string {
		var all []string
		for f, err := range r.Find(t.Context(), asked, by, limit) {
			must.Do(t, err)
			all = append(all, f.Name())
		}
		return all
	}
	if got := found(query.ByName, 0); !slices.Equal(got, names(want)) {
		t.Fatalf("found %d of %d", len(got), len(want))
	}
	if got := found(query.ByName, 3); !slices.Equal(got, names(want[:min(3, len(want))])) {
		t.Errorf("the first three are %q", got)
	}
	for by, key := range map[query.Order]func(dataset.File) int64{
		query.BySize: func(f dataset.File) int64 { return f.Size },
		query.ByIdle: func(f dataset.File) int64 { return int64(idle(f)) },
	} {
		sorted := slices.Clone(want)
		slices.SortStableFunc(sorted, func(a, b dataset.File) int { return cmp.Compare(key(b), key(a)) })
		for _, limit := range []int{7, 10_000} {
			if got := found(by, limit); !slices.Equal(got, names(sorted[:min(limit, len(sorted))])) {
				t.Errorf("by %s the first %d are %q", by, limit, got[:min(7, len(got))])
			}
		}
	}
}

func sum(t *testing.T, r query.Reader, asked query.Question, want []dataset.File) {
	sums, err := r.Sum(t.Context(), asked, nil)
	must.Do(t, err)
	total := query.Sum{}
	byOwner := map[string]int64{}
	for _, f := range want {
		switch f.Kind {
		case mover.File:
			total.Files, total.Bytes, total.Stored = total.Files+1, total.Bytes+f.Size, total.Stored+f.Stored
		case mover.Dir:
			total.Dirs++
		}
		if f.Known.Has(mover.FactOwner) {
			byOwner[cmp.Or(must.Get(people{}.User(f.UID))(t), fmt.Sprint(f.UID))] += f.Size
		}
	}
	if s := sums[0]; len(sums) != 1 || s.Files != total.Files || s.Dirs != total.Dirs || s.Bytes != total.Bytes || s.Stored != total.Stored {
		t.Errorf("%+v, and not %+v", sums, total)
	}
	sums, err = r.Sum(t.Context(), asked, []query.Key{query.Owner, query.Age, query.Dir, query.Project, query.Kind, query.Size, query.Class, query.Group})
	must.Do(t, err)
	got := map[string]int64{}
	for _, s := range sums {
		total.Files, total.Dirs, total.Bytes, total.Stored = total.Files-s.Files, total.Dirs-s.Dirs, total.Bytes-s.Bytes, total.Stored-s.Stored
		if s.Group[0] != "" {
			got[s.Group[0]] += s.Bytes
		}
	}
	if total.Files+total.Dirs+total.Bytes+total.Stored != 0 {
		t.Errorf("the groups together lack %+v", total)
	}
	if !maps.Equal(got, byOwner) {
		t.Errorf("by owner %v, and not %v", got, byOwner)
	}
}

// The lines of a table say what they are of, and come in an order that people expect.
func TestGroups(t *testing.T) {
	r, all := world(t, 2000)
	sums := must.Get(r.Sum(t.Context(), query.Question{Tree: project, Now: now, Choice: policy.Choice{Match: "kind: file"}}, []query.Key{query.Age}))(t)
	want := map[string]int64{}
	for _, f := range all {
		if f.Kind != mover.File {
			continue
		}
		switch d := idle(f) / (24 * time.Hour); {
		case d < 1:
			want["< 1 day"]++
		case d < 7:
			want["1–7 days"]++
		case d < 30:
			want["7–30 days"]++
		case d < 90:
			want["30–90 days"]++
		case d < 180:
			want["90–180 days"]++
		case d < 365:
			want["180 days – 1 year"]++
		case d < 730:
			want["1–2 years"]++
		default:
			want["> 2 years"]++
		}
	}
	last := -1
	order := []string{"< 1 day", "1–7 days", "7–30 days", "30–90 days", "90–180 days", "180 days – 1 year", "1–2 years", "> 2 years"}
	for _, s := range sums {
		at := slices.Index(order, s.Group[0])
		if at <= last || s.Files != want[s.Group[0]] {
			t.Errorf("%+v, and not %d files", s, want[s.Group[0]])
		}
		last = at
	}
	if len(sums) != len(want) {
		t.Errorf("%d lines, and not %d", len(sums), len(want))
	}
	sums = must.Get(r.Sum(t.Context(), query.Question{Tree: project, Dir: "d0", Now: now}, []query.Key{query.Dir}))(t)
	if len(sums) != 4 || !strings.HasPrefix(sums[0].Group[0], "e") || sums[0].Bytes < sums[1].Bytes {
		t.Errorf("%+v", sums)
	}
}

// Of a file with several names each has its share.
func TestShares(t *testing.T) {
	tree := mem.NewTree()
	tree.Put(mover.Entry{Name: "a", Kind: mover.File, Known: mover.FactLinks, Nlink: 2}, make([]byte, 1000))
	tree.Link("a", "b")
	c, err := catalog.Open(t.TempDir(), catalog.Options{})
	must.Do(t, err)
	defer c.Close()
	_, err = c.Scan(t.Context(), project, mem.New(tree, mem.Options{}), catalog.ScanOptions{})
	must.Do(t, err)
	sums, err := query.Reader{Catalog: c}.Sum(t.Context(), query.Question{Tree: project}, nil)
	must.Do(t, err)
	if sums[0].Files != 2 || sums[0].Bytes != 1000 {
		t.Errorf("%+v", sums)
	}
}

// What can not be answered says why.
func TestRefused(t *testing.T) {
	r, _ := world(t, 10)
	for _, row := range []struct {
		asked query.Question
		kind  error
		says  string
	}{
		{query.Question{Tree: catalog.Tree{Tier: "archive"}}, mover.ErrNotExist, "read the catalog of archive: it was never scanned"},
		{query.Question{Tree: project, Dir: "d9"}, mover.ErrNotExist, "d9"},
		{query.Question{Tree: project, Choice: policy.Choice{Match: "{size: large}"}}, mover.ErrUsage, "match:1:8: size"},
		{query.Question{Tree: project, Choice: policy.Choice{Match: "{sise: 1}"}}, mover.ErrUsage, "match:1:2"},
		{query.Question{Tree: project, Choice: policy.Choice{Where: "size >"}}, mover.ErrUsage, "choice:1:7"},
		{query.Question{Tree: project, Choice: policy.Choice{Match: "class: [big]"}}, mover.ErrUsage, "there is no class big"},
		{query.Question{Tree: project, Choice: policy.Choice{Classes: "[{name: big}]"}}, mover.ErrUsage, "want match or where"},
	} {
		_, err := r.Sum(t.Context(), row.asked, nil)
		var found error
		for _, err := range r.Find(t.Context(), row.asked, query.ByName, 0) {
			found = err
		}
		if !errors.Is(err, row.kind) || !strings.Contains(err.Error(), row.says) || found == nil || found.Error() != err.Error() {
			t.Errorf("%+v: %v; find: %v", row.asked, err, found)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Sum(ctx, query.Question{Tree: project}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// deaf tells no name.
type deaf struct{}

func (deaf) User(uint32) (string, error)  { return "", mover.ErrTimeout }
func (deaf) Group(uint32) (string, error) { return "", mover.ErrTimeout }

// TestNamesThatCanNotBeTold: a question by names of accounts is not answered with less than there is, while the directory service does not answer; others have numbers.
func TestNamesThatCanNotBeTold(t *testing.T) {
	r, _ := world(t, 10)
	r.People = deaf{}
	for _, by := range []query.Order{query.ByName, query.BySize} {
		for where, want := range map[string]error{"owner != 'ada'": mover.ErrTimeout, "group == 'vision'": mover.ErrTimeout, "size >= 0": nil} {
			asked := query.Question{Tree: project, Choice: policy.Choice{Where: where}}
			sums, err := r.Sum(t.Context(), asked, []query.Key{query.Owner})
			var found error
			for _, err := range r.Find(t.Context(), asked, by, 0) {
				found = err
			}
			if !errors.Is(err, want) || !errors.Is(found, want) || want == nil && len(sums) == 0 {
				t.Errorf("%s: %v, %v; find: %v", where, sums, err, found)
			}
		}
	}
}
