package agent

import (
	"fmt"
	"strings"

	"datamove.dev/mover"
)

// crashed logs that the worker has crashed, and returns what callers are told. It is a fault of this program, which the same
// command would meet again: no kind of error says that another try may help.
func (p *process) crashed(crash string) error {
	why, _, _ := strings.Cut(crash, "\n")
	a := p.agent
	a.log.Error("a worker has crashed: this is a fault of datamove, please report it with this line",
		"task", p.task.GetId(), "version", a.o.Version, "why", why, "stack", crash)
	return fmt.Errorf("a fault of datamove %s, please report it: its worker has crashed (%s); the log of datamoved on node %s has the stack beside task %s",
		a.o.Version, mover.Printable(why), a.o.Name, p.task.GetId())
}

// endedByItself is the error of a worker that crashed or was killed, as for lack of memory.
func endedByItself(err error) error {
	if err != nil {
		return fmt.Errorf("%w: the process that did it has ended by itself: %w", mover.ErrTransient, err)
	}
	return fmt.Errorf("%w: the process that did it has ended by itself", mover.ErrTransient)
}
