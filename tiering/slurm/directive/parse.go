package directive

import (
	"cmp"
	"fmt"
	"slices"

	"datamove.dev/mover/location"
)

// Variable of the environment in which requests may stand.
const envName = "DATAMOVE"

// Text is what a job has said, and where.
type Text struct {
	Script      string // of its beginning at least ScriptMost+1 bytes
	Comment     string // of --comment
	Environment string // the value of DATAMOVE

	Name   string // of the job, where it is known
	Single bool   // it is known that the job is no array
}

// asked is a request and where it stands; without a line it comes from a record.
type asked struct {
	Request
	line  *line
	words map[string]word // of the line, by the keys of ours
}

// problem tells of a mistake in a word, or in all of it.
func (a asked) problem(key, what, mend string) *Problem {
	if a.line == nil {
		return &Problem{Word: key, What: what, Mend: mend}
	}
	if w, has := a.words[key]; has {
		return a.line.wrong(w.at, w.key, what, mend)
	}
	return a.line.wrong(-1, key, what, mend)
}

// reader collects what the lines say.
type reader struct {
	tiers    Tiers
	asked    []asked
	scratch  []Scratch
	names    map[string]location.Location // of $DW_JOB_ variables, and where they lead
	depends  bool                         // markDepends is there
	unsure   bool                         // a jobdw line is wrong: it is not known which variables it would make
	problems Problems
}

// Parse reads and checks what a job asks for. Its errors are Problems.
func Parse(text Text, tiers Tiers) (Job, error) {
	r := &reader{tiers: tiers, names: map[string]location.Location{}}
	r.read(r.lines(text))
	r.unite()
	r.problems = append(r.problems, check(r.asked, tiers)...)
	if len(r.problems) > 0 {
		inOrder(r.problems)
		return Job{}, r.problems
	}
	job := Job{Scratch: r.scratch}
	for _, a := range r.asked {
		job.Requests = append(job.Requests, a.Request)
	}
	return job, nil
}

// Depends says whether a text says that its job waits for another one.
func Depends(text Text) bool {
	r := &reader{}
	r.read(r.lines(text))
	return r.depends
}

// lines finds all directives.
func (r *reader) lines(text Text) []*line {
	const most = RequestsMost * LineMost
	all, problems := scan(text.Script)
	r.problems = problems
	for _, from := range []struct {
		source, text string
		cut          func(string) []*line
	}{
		{"comment", text.Comment, comment},
		{envName, text.Environment, func(s string) []*line { return pieces(envName, s, 1) }},
	} {
		if len(from.text) > most {
			r.problems = append(r.problems, Problem{Source: from.source, What: fmt.Sprintf("it has more than %d bytes", most), Mend: "put the requests into the script"})
			continue
		}
		all = append(all, from.cut(from.text)...)
	}
	return all
}

// read takes the lines, those first that say what variables there are.
func (r *reader) read(all []*line) {
	cut := map[*line][]word{}
	for _, l := range all {
		if l.kind == "" {
			continue
		}
		words, p := l.words()
		if p != nil {
			if l.kind != old { // a comment, then
				r.problems = append(r.problems, *p)
			}
			l.kind = ""
			continue
		}
		if cut[l] = words; l.kind == cray && len(words) > 0 && words[0].flag && words[0].key == "jobdw" {
			r.jobdw(l, words)
		}
	}
	for _, l := range all {
		switch l.kind {
		case ours:
			r.request(l, cut[l])
		case cray:
			r.cray(l, cut[l])
		case old:
			r.old(l, cut[l])
		}
		if len(r.asked)+len(r.scratch) > RequestsMost {
			r.problems = append(r.problems, l.problem(-1, "", fmt.Sprintf("this is more than %d requests", RequestsMost), "stage one directory instead of its files"))
			return
		}
	}
}

// add takes a request that is right by itself.
func (r *reader) add(a asked) {
	if len(a.Request.String()) > LineMost {
		r.problems = append(r.problems, *a.problem("", fmt.Sprintf("written in full, the directive has more than %d bytes", LineMost), "make it shorter"))
		return
	}
	r.asked = append(r.asked, a)
}

// unite makes one of what is asked for twice.
func (r *reader) unite() {
	seen := map[string]bool{}
	r.asked = slices.DeleteFunc(r.asked, func(a asked) bool {
		text := a.Request.String()
		twice := seen[text]
		seen[text] = true
		return twice
	})
}

// inOrder sorts problems as their places stand in the text.
func inOrder(problems Problems) {
	sources := []string{"script", "comment", envName}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(slices.Index(sources, a.Source), slices.Index(sources, b.Source)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
