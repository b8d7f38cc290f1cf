package system

import (
	"datamove.dev/lustre"
	"datamove.dev/lustre/plain"
)

// Options say what a path does not. The zero Options are right for what is asked through
// the kernel.
type Options struct{}

// At finds out which file system an open file or directory is on. fd stays the caller's.
func At(fd int, o Options) (*lustre.System, error) {
	s, _, err := at(fd, o)
	return s, err
}

func at(fd int, o Options) (*lustre.System, Mount, error) {
	magic, err := magicOf(fd)
	if err != nil {
		return nil, Mount{}, err
	}
	m, _, err := mountOf(fd)
	if err != nil {
		return nil, Mount{}, err
	}
	s := describe(magic, m)
	if err := answer(s, m, fd, o); err != nil {
		return nil, Mount{}, err
	}
	return s, m, nil
}

// describe says what a file system is, and nothing of what it can.
func describe(magic uint32, m Mount) *lustre.System {
	kind, why := kindOf(magic, m)
	s := &lustre.System{Kind: kind, Type: m.Type, Name: m.Source, Mount: m.Point, Lacks: map[lustre.Question]string{}}
	if name, ok := lustreName(m); ok && kind == lustre.IsLustre {
		s.Name = name
	}
	if why != "" {
		s.Lacks[lustre.AskQuota] = why
	}
	return s
}

// answer wires a file system to who answers for it.
func answer(s *lustre.System, m Mount, fd int, o Options) error {
	plain.Answer(s, m.Source)
	return nil
}
