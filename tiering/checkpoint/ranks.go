package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// Check looks into the files of a set that is complete by its names, and says what speaks against it: that a file is not whole, or not there ([Torn]), or that of a rank
// is not. How many ranks there were say the files themselves, and where they do not, those of another set of the run.
func Check(ctx context.Context, f Folder, found Found) (why string, err error) {
	if why := Torn(found.Tree, found.Set, f.Peek); why != "" || found.Commit != nil && found.Commit.Torn == "" {
		return why, nil
	}
	inside := found.Tree.under(found.Name)
	for _, of := range []func([]Entry) []ranks{megatronRanks, deepSpeedRanks} {
		for _, r := range of(inside) {
			r.tell(inside, f.Peek)
			if why := r.lacks(); why != "" {
				return why, nil
			}
			if r.told && !r.uncounted() || !comparesWith(found.Profile) {
				continue
			}
			if why, err := besides(ctx, f, found, of, r); why != "" || err != nil {
				return why, err
			}
		}
	}
	return "", nil
}

// besides compares the ranks of a set with those of others of its run, of which nothing says how many there are.
func besides(ctx context.Context, f Folder, found Found, of func([]Entry) []ranks, r ranks) (why string, err error) {
	before, after := siblings(found.Profile, found.Tree, found.Name)
	tree, err := f.Deep(ctx, found.Tree, slices.Concat(before, after)...)
	if err != nil {
		return "", err
	}
	seen := false
	for _, name := range before {
		for _, other := range of(tree.under(name)) {
			seen = true
			if r.told {
				other.tell(tree.under(name), f.Peek)
			}
			if lost := r.lost(other); lost != "" && !r.confirmed(of, tree, after) {
				return "it has no " + mover.Join(r.dir, lost) + ", which " + name + " has", nil
			}
		}
	}
	if seen || r.told || slices.ContainsFunc(found.View.Trackers, func(t Tracker) bool { return t.Names == found.Name }) {
		return "", nil
	}
	return "nothing says of how many ranks it is", nil
}

// lost is a file of another set of the run that should be in this one, and is not. Where both say of how many ranks they are, and these are others, the parts of the model have to be
// there, of whichever rank.
func (r *ranks) lost(other ranks) string {
	if other.dir != r.dir {
		return ""
	}
	resized := r.told && other.told && !maps.Equal(r.says, other.says)
	parts := map[string]bool{}
	for file := range r.has {
		parts[partOf(file)] = true
	}
	for _, file := range other.files() {
		if r.has[file] == "" && !(r.told && other.counted(file)) && !(resized && parts[partOf(file)]) {
			return file
		}
	}
	return ""
}

var rankOfPart = mover.Pattern(`(-[a-z]+|(?:mp|expp)_rank)_\d{1,9}`)

// partOf is the name of a layer or an expert without the numbers of the rank that has written it: layer_05-model_01-model_states.pt (DeepSpeed b555aa53, runtime/pipe/module.py
// ckpt_layer_path), layer_1_expert_2_mp_rank_03_model_states.pt (runtime/engine.py _get_expert_ckpt_name).
func partOf(file string) string { return rankOfPart().ReplaceAllString(file, "$1") }

// confirmed says of a set that does not tell it by its own files that the next one of the run has the files of the same ranks. Then a run of another size began with it.
func (r *ranks) confirmed(of func([]Entry) []ranks, t Tree, after []string) bool {
	return !r.told && slices.ContainsFunc(after, func(name string) bool {
		return slices.ContainsFunc(of(t.under(name)), func(next ranks) bool { return next.dir == r.dir && maps.Equal(next.has, r.has) })
	})
}

// siblings are the set that the tracker names and the next older one of the run; and after them the next younger one, if there is one.
func siblings(p Profile, t Tree, set string) (before, after []string) {
	tracker, _ := TrackerFor(p, set)
	if at := t.tracked(tracker); at != set && t.under(at) != nil {
		before = append(before, at)
	}
	older := ""
	for _, e := range newestFirst(t) {
		if e.Kind != Dir || e.Name == set || withoutStep(e.Name) != withoutStep(set) {
			continue
		}
		if StepOf(e.Name) > StepOf(set) {
			after = []string{e.Name}
		}
		if slices.Contains(before, e.Name) {
			continue
		}
		if older = e.Name; StepOf(e.Name) < StepOf(set) {
			break
		}
	}
	if older != "" {
		before = append(before, older)
	}
	return before, after
}

// ranks are the files of a set, directly in a directory of it, or one below, that its ranks have written each.
type ranks struct {
	dir    string            // in the set; "" is the set itself
	has    map[string]string // by their names below dir: which kind they are of
	kinds  map[string]*kind  // by what is shown of them
	needs  []string          // ends of names of which at least one is needed
	states []string          // the files that say how many there are
	told   bool              // one has

	universal bool // the optimizers of all ranks are brought into a format of its own, in zero

	names []string // of numbers that such a file has
	says  map[string]int64
	world func(says map[string]int64, r *ranks) (told bool)
}

// kind are the files of one sort, of which each rank has one: the numbers of the rank are left out of its name.
type kind struct {
	sizes []int64 // of each number: how many there are, as the names say, or the files
	shown string  // the name, with a verb for each number
	per   []string
}

// add notes the file of a rank. shown is its name with verbs for its numbers, of which per says what they count.
func (r *ranks) add(name, shown string, numbers, per []string) {
	k := r.kinds[shown]
	if k == nil {
		k = &kind{sizes: make([]int64, len(numbers)), shown: shown, per: per}
		r.kinds[shown] = k
	}
	for i, text := range numbers {
		k.sizes[i] = max(k.sizes[i], number(text)+1)
	}
	r.has[name] = shown
}

// counted says whether there is a number of ranks in the name of a file.
func (r *ranks) counted(file string) bool { return len(r.kinds[r.has[file]].sizes) > 0 }

// uncounted says whether some files have none.
func (r *ranks) uncounted() bool {
	return slices.ContainsFunc(r.files(), func(file string) bool { return !r.counted(file) })
}

// files are the names of all.
func (r *ranks) files() []string {
	var names []string
	for name := range r.has {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const ranksMost = 1 << 20 // files; what has more is not gone through

// lacks says which file of a rank is not there.
func (r *ranks) lacks() (why string) {
	var shown []string
	for s := range r.kinds {
		shown = append(shown, s)
	}
	slices.Sort(shown)
	for _, s := range shown {
		k, total := r.kinds[s], int64(1)
		for _, n := range k.sizes {
			if total *= max(n, 1); total > ranksMost {
				return ""
			}
		}
		for i := range total {
			numbers, left := make([]any, len(k.sizes)), i
			for at := len(k.sizes) - 1; at >= 0; at-- {
				numbers[at], left = left%k.sizes[at], left/k.sizes[at]
			}
			if name := fmt.Sprintf(k.shown, numbers...); r.has[name] == "" {
				return mover.Join(r.dir, name) + " of a rank is not there"
			}
		}
	}
	for _, need := range r.needs {
		if !slices.ContainsFunc(shown, func(s string) bool { return strings.HasSuffix(s, need) }) {
			return "no " + strings.ReplaceAll(need, "%02d", "*") + " is in it"
		}
	}
	return ""
}

// tell has the files say how many ranks there were, and what each has written.
func (r *ranks) tell(inside []Entry, peek Peek) {
	const tries = 3
	slices.Sort(r.states)
	for _, name := range r.states[:min(tries, len(r.states))] {
		full := inside[0].Name + "/" + mover.Join(r.dir, name)
		i := slices.IndexFunc(inside, func(e Entry) bool { return e.Name == full })
		if i < 0 {
			continue
		}
		r.says = stated(inside[i], peek, r.names)
		if r.told = r.world(r.says, r); r.told {
			return
		}
	}
}

var (
	megatronDir = mover.Pattern(`^mp_rank_(\d{2,9})(?:_(\d{3,9}))?(?:_(\d{3,9}))?$`)
	modelStates = mover.Pattern(`^(?:zero_pp_rank_(\d{1,9})_)?mp_rank_(\d{2,9})_model_states\.pt$`)
	optimStates = mover.Pattern(`^((?:bf16_|fp16_)?)zero_pp_rank_(\d{1,9})_mp_rank_(\d{2,9})_optim_states\.pt$`)
)

const megatronStates = "model_optim_rng.pt"

// megatronRanks: megatron/training/checkpointing.py (Megatron-LM 0032978f, get_checkpoint_name): mp_rank_TENSOR, with _PIPELINE where there is more than one stage, and _EXPERT.
// Each directory has the same files, and args in model_optim_rng.pt says how many there are.
func megatronRanks(inside []Entry) (all []ranks) {
	r := ranks{has: map[string]string{}, kinds: map[string]*kind{}, names: megatronNames, world: megatronWorld, needs: []string{megatronStates}}
	for _, e := range inside[min(1, len(inside)):] {
		dir, base := split(strings.TrimPrefix(e.Name, inside[0].Name+"/"))
		m := megatronDir().FindStringSubmatch(dir)
		if m == nil || e.Kind != File || !strings.HasSuffix(base, ".pt") {
			continue
		}
		numbers := slices.DeleteFunc(m[1:], func(n string) bool { return n == "" })
		r.add(dir+"/"+base, []string{"mp_rank_%02d", "mp_rank_%02d_%03d", "mp_rank_%02d_%03d_%03d"}[len(numbers)-1]+"/"+strings.ReplaceAll(base, "%", "%%"), numbers, nil)
		if base == megatronStates {
			r.states = append(r.states, dir+"/"+base)
		}
	}
	if len(r.has) == 0 {
		return nil
	}
	return []ranks{r}
}

var (
	megatronNames  = []string{"tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size", "use_distributed_optimizer"}
	deepSpeedNames = []string{"dp_world_size", "mp_world_size", "stage"}
)

// megatronWorld takes in what args says.
func megatronWorld(says map[string]int64, r *ranks) (told bool) {
	tensor, pipeline, expert := says["tensor_model_parallel_size"], says["pipeline_model_parallel_size"], max(1, says["expert_model_parallel_size"])
	if tensor < 1 || pipeline < 1 {
		return false
	}
	sizes := []int64{tensor}
	for _, n := range []int64{pipeline, expert} {
		if n > 1 {
			sizes = append(sizes, n)
		}
	}
	for _, k := range r.kinds {
		for i := range min(len(k.sizes), len(sizes)) {
			k.sizes[i] = max(k.sizes[i], sizes[i])
		}
	}
	if says["use_distributed_optimizer"] == 1 {
		r.needs = append(r.needs, "distrib_optim.pt")
	}
	return true
}

// deepSpeedRanks: deepspeed/runtime/engine.py (DeepSpeed b555aa53, _get_ckpt_name, _get_zero_ckpt_name): the model of each model-parallel rank, of ZeRO-3 also of each data-parallel one; with
// ZeRO the optimizer of each data-parallel rank of each of these. How many there were stands behind the model, and ds_config.
func deepSpeedRanks(inside []Entry) (all []ranks) {
	at := map[string]*ranks{}
	for _, e := range inside[min(1, len(inside)):] {
		dir, base := split(strings.TrimPrefix(e.Name, inside[0].Name+"/"))
		if e.Kind != File || !deepShard().MatchString(base) {
			continue
		}
		r := at[dir]
		if r == nil {
			r = &ranks{dir: dir, has: map[string]string{}, kinds: map[string]*kind{}, names: deepSpeedNames, world: deepSpeedWorld, needs: []string{"mp_rank_%02d_model_states.pt"}}
			r.universal = slices.ContainsFunc(inside, func(e Entry) bool { return e.Name == inside[0].Name+"/"+mover.Join(dir, "zero") && e.Kind == Dir })
			at[dir] = r
		}
		if m := modelStates().FindStringSubmatch(base); m != nil {
			if r.states = append(r.states, base); m[1] == "" {
				r.add(base, "mp_rank_%02d_model_states.pt", m[2:], []string{"mp"})
			} else {
				r.add(base, "zero_pp_rank_%d_mp_rank_%02d_model_states.pt", m[1:], []string{"dp", "mp"})
			}
		} else if m := optimStates().FindStringSubmatch(base); m != nil {
			r.add(base, m[1]+"zero_pp_rank_%d_mp_rank_%02d_optim_states.pt", m[2:], []string{"dp", "mp"})
		} else {
			r.add(base, strings.ReplaceAll(base, "%", "%%"), nil, nil) // of a layer, or an expert
		}
	}
	for _, r := range at {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b ranks) int { return strings.Compare(a.dir, b.dir) })
	return all
}

// deepSpeedWorld takes in what stands behind the model.
func deepSpeedWorld(says map[string]int64, r *ranks) (told bool) {
	world := map[string]int64{"dp": says["dp_world_size"], "mp": says["mp_world_size"]}
	if world["dp"] < 1 || world["mp"] < 1 {
		return false
	}
	for _, k := range r.kinds {
		for i, what := range k.per {
			k.sizes[i] = max(k.sizes[i], world[what])
		}
	}
	if says["stage"] > 0 && !r.universal {
		r.needs = append(r.needs, "_optim_states.pt")
	}
	return true
}

const (
	statedMost = 16 << 20 // bytes of a file in which is looked
	statedPart = 256 << 10
	statedLong = 64 // bytes of a name and its number
)

// stated are numbers that stand behind names in what torch.save has pickled first (data.pkl, in an archive that does not compress). It is not unpickled, because that runs what it says: a
// key of a dictionary and its small number stand beside each other as they are (pickle protocol 2). It reads no more of the file than that.
func stated(e Entry, peek Peek, names []string) map[string]int64 {
	says := map[string]int64{}
	for off := int64(0); off < min(e.Size, statedMost) && len(says) < len(names); off += statedPart {
		text, ok := part(e, peek, off, min(statedPart+statedLong, e.Size-off)) // what lies across the end is in both
		if !ok {
			return nil
		}
		next := bytes.Index(text[min(1, len(text)):], []byte("PK\x03\x04")) // the next file of the archive
		if next >= 0 {
			text = text[:next+1]
		}
		for _, name := range names {
			if _, had := says[name]; had {
				continue
			}
			if n, is := numberBehind(text, name); is {
				says[name] = n
			}
		}
		if next >= 0 {
			break
		}
	}
	return says
}

// numberBehind finds a name that is pickled as a string, and the number or truth that is pickled behind it.
func numberBehind(text []byte, name string) (n int64, is bool) {
	long := append([]byte{'X'}, binary.LittleEndian.AppendUint32(nil, uint32(len(name)))...)
	for _, begins := range [][]byte{long, {0x8c, byte(len(name))}} {
		key := append(begins, name...)
		for at := bytes.Index(text, key); at >= 0; {
			if n, is := pickledNumber(text[at+len(key):]); is {
				return n, true
			}
			next := bytes.Index(text[at+1:], key)
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	return 0, false
}

// pickledNumber reads a number or a truth behind what notes the string before for later (BINPUT, LONG_BINPUT, MEMOIZE).
func pickledNumber(b []byte) (n int64, is bool) {
	notes := map[byte]int{'q': 2, 'r': 5, 0x94: 1}
	if len(b) > 0 {
		b = b[min(notes[b[0]], len(b)):]
	}
	switch had := len(b); {
	case had >= 2 && b[0] == 'K':
		return int64(b[1]), true
	case had >= 3 && b[0] == 'M':
		return int64(binary.LittleEndian.Uint16(b[1:])), true
	case had >= 5 && b[0] == 'J':
		return int64(int32(binary.LittleEndian.Uint32(b[1:]))), true
	case had >= 1 && b[0] == 0x88:
		return 1, true
	case had >= 1 && b[0] == 0x89:
		return 0, true
	}
	return 0, false
}
