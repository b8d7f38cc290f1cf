package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
)

// ReadDir reads the policies in the files of a directory that end in .yaml, and says all that is wrong with them. has says which tiers there are.
func ReadDir(dir string, has func(tier string) bool) ([]*Program, error) {
	if _, err := os.ReadDir(dir); err != nil {
		return nil, &mover.Error{Op: "read", Location: dir, Err: errors.Unwrap(err)}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []*Program
	var wrong error
	names := map[Name]string{}
	for _, file := range files {
		programs, err := readFile(file)
		if err == nil {
			err = Strangers(programs, has)
		}
		wrong = errors.Join(wrong, err)
		for _, p := range programs {
			name := p.Policy.Metadata.Name
			if before, twice := names[name]; twice {
				wrong = errors.Join(wrong, problem(p, "metadata.name", "%s is the name of a policy in %s, too", name, before))
			}
			names[name] = file
		}
		all = append(all, programs...)
	}
	if wrong != nil {
		return nil, wrong
	}
	return all, nil
}

func readFile(file string) ([]*Program, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, &mover.Error{Op: "read", Location: file, Err: errors.Unwrap(err)}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, yamldoc.TextMost+1))
	if err != nil {
		return nil, &mover.Error{Op: "read", Location: file, Err: errors.Unwrap(err)}
	}
	return Read(file, text)
}

// Strangers says which tiers of policies are none that there are.
func Strangers(programs []*Program, has func(tier string) bool) error {
	var wrong []error
	for _, p := range programs {
		for field, tier := range p.Policy.Tiers() {
			if !has(tier) {
				wrong = append(wrong, problem(p, field, "there is no tier %s in the configuration; datamove tier list shows those that there are", tier))
			}
		}
	}
	return errors.Join(wrong...)
}

// problem is one of a policy that can be read.
func problem(p *Program, field, format string, args ...any) error {
	at := p.Policy.places.Of(field)
	return yamldoc.Problem{File: p.Policy.File, Line: at.Line, Column: at.Column, Field: field, What: fmt.Sprintf(format, args...)}
}
