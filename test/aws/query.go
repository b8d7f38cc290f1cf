package aws

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// form is the parameters of a query, which an operation reads one by one: what it has not asked for when it is done was not understood.
type form struct {
	c    *call
	read map[string]bool
}

// queryOperation makes one of a function that reads a form.
func queryOperation(do func(s *Server, c *call, in *form) (any, error)) operation {
	return func(s *Server, c *call) (any, error) {
		return do(s, c, &form{c, map[string]bool{"Action": true, "Version": true}})
	}
}

// rest is an error when there are parameters that nobody has read. An operation asks before it does anything.
func (f *form) rest() error {
	for name := range f.c.form {
		if !f.read[name] {
			return refuse("InvalidParameterCombination", "this fake of AWS does not know the parameter %s of %s", printable(name), f.c.operation)
		}
	}
	return nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (f *form) text(name string) string {
	f.read[name] = true
	return first(f.c.form[name])
}

// number is a whole one; without the parameter it is nil.
func (f *form) number(name string) (*int, error) {
	text := f.text(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, refuse(f.invalid(), "%s %s is no number", name, printable(text))
	}
	return &n, nil
}

func (f *form) moment(name string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, f.text(name))
	if err != nil {
		return t, refuse(f.invalid(), "%s %s is no time", name, printable(f.text(name)))
	}
	return t, nil
}

func (f *form) invalid() string {
	if f.c.protocol == &ec2Query {
		return "InvalidParameterValue"
	}
	return "ValidationError"
}

// list is NAME.1, NAME.2 and so on; of a query protocol that is not EC2's, NAME is something.member.
func (f *form) list(name string) (all []string) {
	for i := 1; i <= 1000; i++ {
		key := fmt.Sprintf("%s.%d", name, i)
		if _, ok := f.c.form[key]; !ok {
			break
		}
		all = append(all, f.text(key))
	}
	return all
}

// each calls do with NAME.1, NAME.2 and so on, as long as there are parameters below.
func (f *form) each(name string, do func(prefix string) error) error {
	for i := 1; i <= 1000; i++ {
		prefix := fmt.Sprintf("%s.%d.", name, i)
		if !f.has(prefix) {
			return nil
		}
		if err := do(prefix); err != nil {
			return err
		}
	}
	return nil
}

func (f *form) has(prefix string) bool {
	for name := range f.c.form {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// tags are PREFIX.1.Key and PREFIX.1.Value, and so on.
func (f *form) tags(prefix string) (all []tag) {
	_ = f.each(prefix, func(p string) error {
		all = append(all, tag{f.text(p + "Key"), f.text(p + "Value")})
		return nil
	})
	return all
}

// formTags are the tags of a form that somebody else reads.
func formTags(values map[string][]string, prefix string) []tag {
	return (&form{&call{form: values}, map[string]bool{}}).tags(prefix)
}
