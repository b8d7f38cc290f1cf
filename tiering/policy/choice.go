package policy

import (
	"errors"
	"time"

	"datamove.dev/tiering/dataset"

	"datamove.dev/mover/config/yamldoc"
)

// Choice is which files a question is about, in the words of a rule. The zero value is all of them.
type Choice struct {
	Match string // clauses, as YAML: "{size: '>1GiB', owner: [ada]}"
	Any   bool   // one of the clauses suffices
	Where string // an expression in CEL
	// Classes are those of a policy, as YAML: a list of name and match. Clauses may name them, and [Judge.Sight] tells them.
	Classes string
}

// Read makes a program of a choice: of a file that is meant its Verdict has the Rule 0. What is wrong with it is yamldoc.Problems, by the part that it is in.
func (c Choice) Read() (*Program, error) {
	var problems yamldoc.Problems
	part := func(name, text string, into any) {
		r := &yamldoc.Reader{File: name}
		switch all := r.Documents([]byte(text)); {
		case len(all) > 1:
			r.Add(all[1], "", "want one document")
		case len(all) == 1:
			r.Into(all[0], "", into)
		}
		problems = append(problems, r.Problems...)
	}
	var match *Match
	var where *Where
	var classes []Class
	if c.Match != "" {
		match = &Match{}
		part("match", c.Match, match)
	}
	if c.Where != "" {
		where = &Where{At: yamldoc.Position{Line: 1, Column: 1}, Text: c.Where}
	}
	part("classes", c.Classes, &classes)
	r := &yamldoc.Reader{File: "choice", Problems: problems}
	env, err := newEnvironment(nil)
	if err != nil || len(problems) > 0 {
		return nil, errors.Join(err, r.Err())
	}
	comp := &compiler{r: r, env: env}
	comp.classesOf(classes)
	prog := &Program{Policy: &Policy{}, env: env, classes: comp.classes}
	prog.rules = []rule{{comp.matcher(match, c.Any, where, "choice"), keep, "chosen"}}
	return prog, r.Err()
}

// View is what groups of files are made by.
type View struct {
	Owner, Group string
	Idle         time.Duration // since it was of use to anybody
	Classes      []string
}

// View tells of a file what a question may be about.
func (j *Judge) View(f *dataset.File, at *Facts) View {
	j.look(f, at)
	return View{j.owner(), j.group(), time.Duration(max(0, j.now-j.used)), j.classNames()}
}
