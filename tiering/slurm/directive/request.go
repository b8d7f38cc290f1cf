package directive

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// forms say which words stand beside a verb.
var forms = map[Verb]struct {
	keys, flags []string
	example     string
}{
	StageIn:    {[]string{"to"}, []string{"required", "shared"}, "stage-in=dataset:imagenet to=scratch:imagenet required"},
	StageOut:   {[]string{"to", "when"}, nil, "stage-out=scratch:out to=project:run1/out when=success"},
	Checkpoint: {[]string{"to", "profile", "keep"}, nil, "checkpoint=scratch:ckpt to=project:run1,archive:run1 profile=dcp keep=3"},
	Purge:      {[]string{"when"}, nil, "purge=scratch:tmp when=always"},
}

// Marks stand alone in a line, and ask for nothing.
const (
	markDW      = "dw"      // there are #DW lines
	markDepends = "depends" // the job waits for another one, which may add the datasets that it names
)

// vocabulary has every word of a line of ours.
var vocabulary = []string{"stage-in", "stage-out", "checkpoint", "purge", markDW, markDepends, "to", "when", "profile", "keep", "required", "shared"}

func example(v Verb) string { return "as in " + forms[v].example }

// request reads a line of ours.
func (r *reader) request(l *line, words []word) {
	if len(words) == 1 && words[0].flag && (words[0].key == markDW || words[0].key == markDepends) {
		r.depends = r.depends || words[0].key == markDepends
		return
	}
	verb, p := findVerb(l, words)
	if p == nil {
		p = fits(l, words, Verb(verb.key))
	}
	if p != nil {
		r.problems = append(r.problems, *p)
		return
	}
	a := asked{Request: Request{Verb: Verb(verb.key)}, line: l, words: map[string]word{}}
	from, p := locate(l, verb, false)
	if p != nil {
		r.problems = append(r.problems, *p)
		return
	}
	a.From = from
	if a.Verb == StageOut || a.Verb == Purge {
		a.When = Always
	}
	if a.Verb == Checkpoint {
		a.Profile = Plain
	}
	for _, w := range words {
		a.words[w.key] = w
		if p := a.take(l, w); p != nil {
			r.problems = append(r.problems, *p)
			return
		}
	}
	if p := r.complete(&a); p != nil {
		r.problems = append(r.problems, *p)
		return
	}
	r.add(a)
}

// findVerb finds the one of a line.
func findVerb(l *line, words []word) (verb word, wrong *Problem) {
	fail := func(at int, key, what, mend string) (word, *Problem) {
		return word{}, l.wrong(at, key, what, mend)
	}
	count := 0
	for _, w := range words {
		switch {
		case strings.HasPrefix(w.key, "#"):
			return fail(w.at, "", "a comment does not stand behind a directive", "give it a line of its own")
		case !slices.Contains(vocabulary, w.key):
			return fail(w.at, shown(w.key), "unknown word", nearest(w.key, vocabulary))
		case w.key == markDW, w.key == markDepends:
			return fail(w.at, w.key, "it stands alone", "write "+ours+" "+w.key+", and the requests in lines of their own")
		}
		if _, is := forms[Verb(w.key)]; !is {
			continue
		}
		if count++; count > 1 {
			return fail(w.at, w.key, "a line has one request", "give it a line of its own; in a comment separate them with ;")
		}
		verb = w
	}
	if count == 0 {
		return fail(-1, "", "it asks for nothing", example(StageIn))
	}
	return verb, nil
}

// fits looks whether the words belong to the verb, once each, with a value or without.
func fits(l *line, words []word, verb Verb) *Problem {
	form := forms[verb]
	seen := map[string]bool{}
	for _, w := range words {
		what := ""
		isFlag := slices.Contains(form.flags, w.key)
		switch {
		case seen[w.key]:
			what = "it stands here twice"
		case w.key != string(verb) && !isFlag && !slices.Contains(form.keys, w.key):
			what = "it does not belong to " + string(verb)
		case isFlag && !w.flag:
			what = "it has no value"
		case !isFlag && w.flag, !isFlag && w.value == "":
			what = "it has to have a value, behind = and without a blank"
		}
		if seen[w.key] = true; what != "" {
			return l.wrong(w.at, w.key, what, example(verb))
		}
	}
	return nil
}

// take reads one word beside the verb.
func (a *asked) take(l *line, w word) *Problem {
	what := ""
	switch w.key {
	case "required":
		a.Required = true
	case "shared":
		a.Shared = true
	case "when":
		if a.When = When(w.value); a.When != Always && a.When != Success {
			what = shown(w.value) + " is neither always nor success"
		}
	case "profile":
		if a.Profile = Profile(w.value); !slices.Contains(Profiles, a.Profile) {
			what = "there is no profile " + shown(w.value) + "; " + nearest(w.value, profileNames())
		}
	case "keep":
		var err error
		if a.Keep, err = strconv.Atoi(w.value); err != nil || !validKeep(a.Keep) || strconv.Itoa(a.Keep) != w.value {
			what = fmt.Sprintf("it is a number from 2, the newest and the one before, to %d", keepMost)
		}
	case "to":
		return a.takeTo(l, w)
	}
	if what == "" {
		return nil
	}
	return l.wrong(w.at, w.key, what, example(a.Verb))
}

func validKeep(n int) bool { return n >= 2 && n <= keepMost }

func profileNames() []string {
	var names []string
	for _, p := range Profiles {
		names = append(names, string(p))
	}
	return names
}

// takeTo reads targets. Only checkpoints have several.
func (a *asked) takeTo(l *line, w word) *Problem {
	values := []string{w.value}
	if a.Verb == Checkpoint {
		values = strings.Split(w.value, ",")
	}
	for _, v := range values {
		to, p := locate(l, word{key: w.key, value: v, at: w.at}, a.Verb != StageIn)
		if p == nil && a.Verb == Checkpoint && strings.Contains(to.String(), ",") {
			p = l.wrong(w.at, w.key, hasComma, "rename it")
		}
		if p != nil {
			return p
		}
		a.To = append(a.To, to)
	}
	return nil
}

const hasComma = "a comma separates the targets of a checkpoint, and can not be in one"

// complete adds the target that may be left out.
func (r *reader) complete(a *asked) *Problem {
	if len(a.To) > 0 || a.Verb == Purge {
		return nil
	}
	fail := func(what, mend string) *Problem { return a.problem(string(a.Verb), what, mend) }
	if a.Verb != StageIn {
		return fail("it has no to=", example(a.Verb))
	}
	tier, why := r.tiers.scratch()
	if why != "" {
		return fail("it has no to=, and "+why, "say where it goes: to=TIER:name")
	}
	name := baseOf(a.From)
	if name == "" || strings.HasPrefix(name, mover.TempPrefix) {
		return fail("it has no to=, and the source has no name of its own", "say where it goes: to="+tier+":name")
	}
	a.To = []location.Location{location.OfTier(tier, name)}
	return nil
}

// baseOf is the name that a location has by itself.
func baseOf(l location.Location) string {
	if base := l.Base(); base != "" {
		return base
	}
	return cmp.Or(l.Name, l.Bucket, l.Tier)
}

// locate reads the location of a word; nodes says that it may name the node. Values are
// not repeated: one may have the keys of a store in it.
func locate(l *line, w word, nodes bool) (location.Location, *Problem) {
	at, what, mend := parseLocation(w.value, nodes)
	if what == "" {
		return at, nil
	}
	return at, l.wrong(w.at, w.key, what, mend)
}

func parseLocation(s string, nodes bool) (at location.Location, what, mend string) {
	const known = "a location is TIER:path, /path, s3://bucket/prefix or dataset:name"
	switch {
	case s == "":
		return at, "a location is empty", known
	case s[0] == '~':
		return at, shellMeant, shellMend
	}
	at, err := location.Parse(s)
	if err != nil {
		return at, strings.TrimPrefix(err.Error(), mover.ErrUsage.Error()+": "), known
	}
	what, mend = sound(at, nodes)
	return at, what, mend
}

const (
	shellMeant = "variables of the shell and ~ are not known here"
	shellMend  = "write %u for the user, %j for the job's id, %x for its name"
)

// shellish reports whether a shell would find a variable in s.
func shellish(s string) bool {
	for i := range len(s) - 1 {
		if c := s[i+1]; s[i] == '$' && (c == '{' || c == '(' || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return true
		}
	}
	return false
}
