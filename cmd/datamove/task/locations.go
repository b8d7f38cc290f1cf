package task

import (
	"strings"
)

// Ends sets where a task comes from and where it goes.
func (t *Request) Ends(source, target string) (err error) {
	if t.Engine.Source, err = t.Locate(source); err != nil {
		return err
	}
	t.Source = source
	return t.Aim(target)
}

// Aim sets where a task goes.
func (t *Request) Aim(target string) (err error) {
	if t.Engine.Target, err = t.Locate(target); err != nil {
		return err
	}
	t.Target = target
	return nil
}

// Into sets several sources that go below dir.
func (t *Request) Into(dir string, sources []string) error {
	for _, arg := range sources {
		l, err := t.Locate(arg)
		if err != nil {
			return err
		}
		t.Engine.Sources = append(t.Engine.Sources, l)
	}
	t.Source = strings.Join(sources, " ")
	return t.Aim(dir)
}
