package cli

import (
	"strings"
)

// ends sets where a task comes from and where it goes.
func (t *task) ends(source, target string) (err error) {
	if t.request.Source, err = t.locate(source); err != nil {
		return err
	}
	t.source = source
	return t.aim(target)
}

// aim sets where a task goes.
func (t *task) aim(target string) (err error) {
	if t.request.Target, err = t.locate(target); err != nil {
		return err
	}
	t.target = target
	return nil
}

// into sets several sources that go below dir.
func (t *task) into(dir string, sources []string) error {
	for _, arg := range sources {
		l, err := t.locate(arg)
		if err != nil {
			return err
		}
		t.request.Sources = append(t.request.Sources, l)
	}
	t.source = strings.Join(sources, " ")
	return t.aim(dir)
}
