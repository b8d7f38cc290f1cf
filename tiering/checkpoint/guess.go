package checkpoint

import (
	"context"
	"slices"
	"strings"
)

// Profiles are all there are, by name.
func Profiles() (all []Profile) {
	for p := range forms {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// Guess finds out whose checkpoints are in a folder: by the names in it, and where these say nothing by what is in the newest directory. Plain
// is what nothing says anything of.
func Guess(ctx context.Context, f Folder) (Profile, error) {
	top, err := f.Top(ctx)
	if err != nil {
		return "", err
	}
	any := func(is func(Entry) bool) bool { return slices.ContainsFunc(top.Entries, is) }
	dir := func(matches func(string) bool) bool {
		return any(func(e Entry) bool { return e.Kind == Dir && matches(e.Name) })
	}
	switch {
	case top.under(megatronTracker) != nil, dir(iteration().MatchString):
		return Megatron, nil
	case dir(trainer().MatchString):
		return HF, nil
	case any(func(e Entry) bool {
		return strings.HasSuffix(e.Name, unfinished) || e.Kind == File && forms[NeMo].file(e.Name)
	}):
		return NeMo, nil
	}
	for _, e := range newestFirst(top) {
		if e.Kind != Dir {
			continue
		}
		t, err := f.Deep(ctx, top, e.Name)
		if err != nil {
			return "", err
		}
		if p := guessInside(t.under(e.Name)); p != "" {
			return p, nil
		}
	}
	return Plain, nil
}

// guessInside finds it out by what is in a set; "" is not.
func guessInside(inside []Entry) Profile {
	names := direct(inside)
	switch {
	case slices.ContainsFunc(names, deepShard().MatchString):
		return DeepSpeed
	case slices.Contains(names, orbaxMetadata), slices.Contains(names, "_METADATA"):
		return Orbax
	case forms[DCP].holds("", names):
		return DCP
	case has(inside, "weights/.metadata"), has(inside, "model_weights/.metadata"):
		return NeMo
	}
	for _, m := range Marks {
		if slices.Contains(names, m) {
			return Plain
		}
	}
	return ""
}
