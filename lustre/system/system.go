package system

import (
	"datamove.dev/lustre"
	"datamove.dev/lustre/plain"
)

// Options say what a path does not. The zero Options are right for what is asked through
// the kernel.
type Options struct{}

// find fills in the file system of h.fd.
func (h *Handle) find(o Options) error {
	magic, err := magicOf(h.fd)
	if err != nil {
		return err
	}
	if h.Mount, _, err = mountOf(h.fd); err != nil {
		return err
	}
	h.System = describe(magic, h.Mount)
	return h.answer(o)
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
func (h *Handle) answer(Options) error {
	plain.Answer(h.System, h.Mount.Source)
	return nil
}
