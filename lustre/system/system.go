package system

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/client"
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
	switch h.System.Kind {
	case lustre.IsLustre:
		return h.answerLustre()
	default:
		plain.Answer(h.System, h.Mount.Source)
	}
	return nil
}

// answerLustre asks the client's module who it is. What only looks like a client has the
// answers of any file system.
func (h *Handle) answerLustre() error {
	s := h.System
	if s.Mount == "" {
		return errors.New("this is a Lustre whose mount can not be seen from here: it is mounted in another namespace")
	}
	var here, there unix.Stat_t
	if err := unix.Fstat(h.fd, &here); err != nil {
		return err
	}
	if err := unix.Stat(s.Mount, &there); err != nil {
		return fmt.Errorf("its mount %s: %w", s.Mount, err)
	}
	if here.Dev != there.Dev {
		return fmt.Errorf("its mount %s can not be reached: something else is mounted on it", s.Mount)
	}
	c, err := client.Open(s.Mount)
	if errors.Is(err, errors.ErrUnsupported) {
		s.Kind, s.Lacks[lustre.AskQuota] = lustre.IsOther, err.Error()
		plain.Answer(s, h.Mount.Source)
		return nil
	}
	if err != nil {
		return err
	}
	h.closed = append(h.closed, c.Close)
	s.Name, s.Layout, s.Quota, s.Usage = c.Name, c, c, c
	s.HSM, s.Change = c.HSM(), client.ChangesOf(c.Name)
	return nil
}
