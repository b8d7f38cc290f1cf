package detect

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/cephfs"
	"datamove.dev/lustre/client"
	"datamove.dev/lustre/gpfs"
	"datamove.dev/lustre/localfs"
)

// Options say what a path does not. The zero Options are right for what is asked through
// the kernel.
type Options struct {
	// GPFS says how file systems of Storage Scale are asked, by the names of their devices
	// without /dev/; those that are not there are asked by the mm commands.
	GPFS map[string]gpfs.Options
}

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

// answer gives a file system the answers of its package.
func (h *Handle) answer(o Options) error {
	var err error
	switch h.System.Kind {
	case lustre.IsLustre:
		err = h.answerLustre()
	case lustre.IsCephFS:
		err = cephfs.Answer(h.System, h.fd)
	case lustre.IsGPFS:
		gpfs.Answer(h.System, o.GPFS[strings.TrimPrefix(h.System.Name, "/dev/")])
	default:
		localfs.Answer(h.System, h.Mount.Source)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		h.pretends(err)
		return nil
	}
	return err
}

// pretends has what only looks like something else answer as any file system does.
func (h *Handle) pretends(why error) {
	s := h.System
	*s = lustre.System{Kind: lustre.IsOther, Type: s.Type, Name: s.Name, Mount: s.Mount,
		Lacks: map[lustre.Question]string{lustre.AskQuota: why.Error()}}
	localfs.Answer(s, h.Mount.Source)
}

// answerLustre asks the client's module for its identity: at the root of its mount, or, where that
// can not be opened, by the directory that is open. Where neither is possible, it is a
// Lustre without answers.
func (h *Handle) answerLustre() error {
	c, err := h.client()
	if errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	s := h.System
	if err != nil {
		for _, question := range []lustre.Question{lustre.AskLayout, lustre.AskQuota, lustre.AskUsage, lustre.AskHSM, lustre.AskChange} {
			s.Lacks[question] = err.Error()
		}
		return nil
	}
	h.closed = append(h.closed, c.Close)
	s.Name, s.Layout, s.Quota, s.Usage = c.Name, c, c, c
	s.HSM, s.Change = c.HSM(), client.ChangesOf(c.Name)
	return nil
}

func (h *Handle) client() (*client.Client, error) {
	why := h.unreachable()
	if why == nil {
		c, err := client.Open(h.Mount.Point)
		if err == nil || errors.Is(err, errors.ErrUnsupported) {
			return c, err
		}
		why = err
	}
	if !h.IsDir() {
		return nil, why
	}
	return client.At(h.fd, cmp.Or(h.Mount.Point, h.path))
}

// unreachable says why the root of the mount of h is not what its name is.
func (h *Handle) unreachable() error {
	point := h.Mount.Point
	if point == "" {
		return errors.New("its mount can not be seen from here: it belongs to another namespace, or there is no /proc")
	}
	var here, there unix.Stat_t
	if err := errors.Join(unix.Fstat(h.fd, &here), unix.Stat(point, &there)); err != nil {
		return fmt.Errorf("its mount %s: %w", point, err)
	}
	if here.Dev != there.Dev {
		return fmt.Errorf("its mount %s can not be reached: something else is mounted on it", point)
	}
	return nil
}
