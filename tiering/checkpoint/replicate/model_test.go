package replicate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"datamove.dev/test/must"
	"datamove.dev/test/seed"
	"datamove.dev/tiering/checkpoint"
)

// saved is a save of the model.
type saved struct {
	run, name, save string
	when            time.Time
}

// retaining is a run of the model: two runs that save into one folder, and what becomes of it.
type retaining struct {
	*world
	random  *rand.Rand
	now     time.Time
	steps   map[string]int
	saves   []saved
	targets []*Folder
	damaged map[string]bool // by target, name and save
	latest  string          // what the tracker of both targets names
	tracked time.Time       // and since when
	renames int
	did     []string
	gone    int
}

// TestRetention: whatever happens to two runs in a folder (they are rolled back, also by a tracker, save over what they have saved, their folder is renamed, trackers and links name one, copies are damaged that were verified long
// ago, or just now where nothing is trusted), retention at one target, or both, never takes the newest save of a run that can be restored; and a restore brings the newest of all.
//
//safety:5/jobs two runs in a folder, rolled back, renamed, saved over, and copies damaged on either target in any order: retention never takes the newest save that can be restored
func TestRetention(t *testing.T) {
	rounds := 4
	if seed.Soak() {
		rounds = 1000
	}
	if testing.Short() {
		rounds = 2
	}
	first, gone := seed.Of(t), 0
	for nth := range uint64(rounds) {
		w := &world{TB: t, site: &Site{Open: openHere, Request: requestIn(t.TempDir()), Trust: Trust * time.Duration(nth%2)}, dir: t.TempDir()}
		m := &retaining{world: w, random: rand.New(rand.NewPCG(first+nth, 0)), now: time.Now().Add(-100 * time.Hour).Truncate(time.Second), steps: map[string]int{}, damaged: map[string]bool{}}
		for _, dir := range []string{"pfs", "far"} {
			m.targets = append(m.targets, w.folder(w.at(dir), checkpoint.DCP))
		}
		for range 24 {
			m.step()
			if t.Failed() {
				t.Fatalf("case %d: %q", nth, m.did)
			}
		}
		m.restore()
		if gone += m.gone; t.Failed() {
			t.Fatalf("case %d: %q", nth, m.did)
		}
	}
	if gone < rounds {
		t.Errorf("%d have gone in %d cases: it shows nothing", gone, rounds)
	}
}

func (m *retaining) note(format string, args ...any) {
	m.did = append(m.did, fmt.Sprintf(format, args...))
}

// step does something.
func (m *retaining) step() {
	run := []string{"a", "b"}[m.random.IntN(2)]
	switch m.random.IntN(12) {
	case 0:
		m.steps[run] = m.steps[run] / 20 * 10
		m.note("%s is rolled back to %d", run, m.steps[run])
	case 1:
		m.renames++
		m.note("the folder is renamed")
		if err := os.Rename(m.at("nvme"), m.at(fmt.Sprint("old", m.renames))); !os.IsNotExist(err) {
			must.Do(m, err)
		}
	case 2:
		m.name()
	case 3, 4:
		m.harm(run)
	case 5, 6, 7:
		m.prune()
	default:
		m.saveNext(run)
	}
}

// saveNext has a run save, and brings that to one target, or both.
func (m *retaining) saveNext(run string) {
	m.steps[run] += 10
	m.now = m.now.Add(time.Minute)
	one := saved{run: run, name: fmt.Sprintf("%s_%d", run, m.steps[run]), when: m.now}
	m.note("%s is saved", one.name)
	must.Do(m, os.RemoveAll(m.at("nvme/"+one.name)))
	m.save("nvme", one.name, fmt.Sprint("alpha of ", m.now.Unix()))
	for _, file := range []string{"__0_0.distcp", ".metadata"} {
		must.Do(m, os.Chtimes(m.at("nvme/"+one.name+"/"+file), m.now, m.now))
	}
	from := m.folder(m.at("nvme"), checkpoint.DCP)
	one.save = saveIn(m, from, one.name)
	m.saves = append(m.saves, one)
	for i, to := range m.targets {
		if i == 0 || m.random.IntN(3) > 0 {
			_, err := m.site.Carry(m.Context(), from, one.name, to, nil)
			must.Do(m, err)
		}
	}
}

// name has the tracker name the last save, or any: then its run is rolled back to that. A link names any.
func (m *retaining) name() {
	if len(m.saves) == 0 {
		return
	}
	m.now = m.now.Add(time.Minute)
	named, any := m.saves[len(m.saves)-1], m.saves[m.random.IntN(len(m.saves))]
	if m.random.IntN(2) > 0 {
		named = m.saves[m.random.IntN(len(m.saves))]
	}
	m.latest, m.tracked = named.name, m.now
	m.note("latest names %s, and best %s", named.name, any.name)
	for _, f := range m.targets {
		to := f.Location.Path
		must.Do(m, os.WriteFile(filepath.Join(to, "latest"), []byte(named.name), 0o644))
		must.Do(m, os.Chtimes(filepath.Join(to, "latest"), m.now, m.now))
		must.Do(m, os.RemoveAll(filepath.Join(to, "best")))
		must.Do(m, os.Symlink(any.name, filepath.Join(to, "best")))
	}
}

// current is when a save was the newest: when it was saved, or the tracker was written that names it.
func (m *retaining) current(one saved) time.Time {
	if one.name == m.latest && m.tracked.After(one.when) {
		return m.tracked
	}
	return one.when
}

// harm damages copies of the newest saves of a run, at one target or both, that were verified long ago.
func (m *retaining) harm(run string) {
	left, targets := 1+m.random.IntN(3), m.targets
	if i := m.random.IntN(4); i < 2 {
		targets = targets[i : i+1]
	}
	for _, one := range slices.Backward(m.saves) {
		if one.run != run || left == 0 {
			continue
		}
		left--
		for _, f := range targets {
			if m.has(f, one) {
				m.damage(f, one)
			}
		}
	}
}

func (m *retaining) damage(f *Folder, one saved) {
	m.note("%s is damaged in %s", one.name, filepath.Base(f.Location.Path))
	if m.site.Trust > 0 {
		m.aged(f, one.name)
	}
	m.world.damage(filepath.Base(f.Location.Path), one.name)
	m.damaged[f.String()+one.name+one.save] = true
}

// has says whether a target has a save, verified as its record says, and it is as it was.
func (m *retaining) has(f *Folder, one saved) bool {
	_, held, err := f.held(m.Context(), one.name, one.save)
	must.Do(m, err)
	return held && !m.damaged[f.String()+one.name+one.save]
}

// newest are the newest saves of each run that can be restored from somewhere.
func (m *retaining) newest() map[string]saved {
	all := map[string]saved{}
	for _, one := range m.saves {
		if slices.ContainsFunc(m.targets, func(f *Folder) bool { return m.has(f, one) }) {
			if m.current(one).Before(m.current(all[one.run])) {
				continue
			}
			all[one.run] = one
		}
	}
	return all
}

// prune asks retention at one target, or both, and does what it says.
func (m *retaining) prune() {
	folders := m.targets
	if i := m.random.IntN(3); i < 2 {
		folders = folders[i : i+1]
	}
	keep := checkpoint.Keep{Last: 1 + m.random.IntN(3), Every: int64(20 * m.random.IntN(2))}
	before := m.newest()
	tiers, err := Judge(m.Context(), folders, keep)
	must.Do(m, err)
	must.Do(m, m.site.Assure(m.Context(), tiers, keep))
	m.note("prune %+v of %d targets", keep, len(folders))
	for _, t := range tiers {
		for _, v := range t.Verdicts {
			if !v.Keep {
				m.note("%s goes from %s", v.Name, filepath.Base(t.Location.Path))
				m.gone++
				must.Do(m, m.site.Remove(m.Context(), t, v.Name))
			}
		}
	}
	after := m.newest()
	for run, one := range before {
		if after[run] != one {
			m.Errorf("of %s %s could be restored, and now %s can", run, one.name, after[run].name)
		}
	}
}

// restore brings the newest of all, or a newer one that is damaged nowhere.
func (m *retaining) restore() {
	m.latest = ""
	var want saved
	for _, one := range m.newest() {
		if one.when.After(want.when) {
			want = one
		}
	}
	if want.name == "" {
		return
	}
	for _, f := range m.targets {
		must.Do(m, os.RemoveAll(filepath.Join(f.Location.Path, "latest"))) // it names one that may be gone, or damaged
	}
	r, err := m.site.Restore(m.Context(), m.targets, Want{}, m.folder(m.at("back"), checkpoint.DCP), func(*Folder, string, string) {})
	if err != nil || SaveOf(r.Found) != want.save {
		m.Errorf("restored %s, want %s: %v", r.Name, want.name, err)
	}
}
