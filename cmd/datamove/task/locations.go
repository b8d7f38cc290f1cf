package task

import (
	"strings"
)

// SetEnds sets where a task comes from and where it goes.
func (t *Request) SetEnds(source, target string) (err error) {
	if t.Engine.Source, err = t.Locate(source); err != nil {
		return err
	}
	t.Source = source
	return t.SetTarget(target)
}

// SetTarget sets where a task goes.
func (t *Request) SetTarget(target string) (err error) {
	if t.Engine.Target, err = t.Locate(target); err != nil {
		return err
	}
	t.Target = target
	return nil
}

// SetSources sets several sources that go below dir.
func (t *Request) SetSources(dir string, sources []string) error {
	for _, arg := range sources {
		l, err := t.Locate(arg)
		if err != nil {
			return err
		}
		t.Engine.Sources = append(t.Engine.Sources, l)
	}
	t.Source = strings.Join(sources, " ")
	return t.SetTarget(dir)
}
