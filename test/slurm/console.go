package slurm

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// console is a scontrol that goes on. A wait asks hundreds of times, and none of that starts a process.
type console struct {
	scontrol  *process
	questions *os.File
	answers   *os.File
	lines     *bufio.Reader // of answers
}

// asks has the console of a machine answer as scontrol does; what that complains about is lost.
func (c *Cluster) asks(question string) (string, error) {
	m := c.machines[Controller]
	m.asking.Lock()
	defer m.asking.Unlock()
	if m.console == nil {
		x, err := m.newConsole()
		if err != nil {
			return "", err
		}
		m.console = x
	}
	answer, err := m.console.ask(question)
	if err != nil {
		m.console.end()
		m.console = nil
	}
	return answer, err
}

func (m *machine) newConsole() (*console, error) {
	cmd, err := m.enter("stdbuf", "-oL", "scontrol")
	if err != nil {
		return nil, err
	}
	in, questions, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), questions.Close())
	}
	cmd.Stdin, cmd.Stdout = in, out
	p, err := begin(cmd)
	x := &console{p, questions, answers, bufio.NewReader(answers)}
	if err := errors.Join(err, in.Close(), out.Close()); err != nil {
		x.end()
		return nil, fmt.Errorf("console: %w", err)
	}
	return x, nil
}

// ask reads an answer up to that to another question, which tells the version. Behind its prompt scontrol repeats what it was asked.
func (x *console) ask(question string) (string, error) {
	if _, err := fmt.Fprintf(x.questions, "%s\nversion\n", question); err != nil {
		return "", err
	}
	if err := x.answers.SetReadDeadline(time.Now().Add(clientSeconds * time.Second)); err != nil {
		return "", err
	}
	var answer strings.Builder
	for {
		line, err := x.lines.ReadString('\n')
		switch {
		case err != nil:
			return "", fmt.Errorf("scontrol: %s: %w", question, err)
		case strings.HasPrefix(line, "slurm-wlm "), strings.HasPrefix(line, "slurm "):
			return answer.String(), nil
		case !strings.HasPrefix(line, "scontrol: "):
			answer.WriteString(line)
		}
	}
}

// end ends it: scontrol leaves at the end of its questions.
func (x *console) end() {
	_ = x.questions.Close()
	_ = x.answers.Close()
	if x.scontrol != nil {
		x.scontrol.kill()
	}
}
