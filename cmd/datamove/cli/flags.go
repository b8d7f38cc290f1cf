package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// parsed is a flag with a text that a function reads.
type parsed[T any] struct {
	dst   *T
	parse func(string) (T, error)
	text  string
	kind  string
}

func (p *parsed[T]) String() string { return p.text }
func (p *parsed[T]) Type() string   { return p.kind }

func (p *parsed[T]) Set(s string) error {
	v, err := p.parse(s)
	if err != nil {
		return err
	}
	*p.dst, p.text = v, s
	return nil
}

// ParsedVar adds a flag that parse reads. The word in backquotes in help names its value.
func ParsedVar[T any](flags *pflag.FlagSet, dst *T, name string, parse func(string) (T, error), help string) {
	flags.Var(&parsed[T]{dst: dst, parse: parse, kind: "value"}, name, help)
}

// Choice is one word of a flag, and what it means.
type Choice[T any] struct {
	Word  string
	Value T
}

// Chosen is a flag that takes one of a few words.
type Chosen[T any] struct {
	Dst     *T
	Choices []Choice[T]
	Text    string // of the choice, as it was made; the default at first
}

func (c *Chosen[T]) String() string { return c.Text }
func (c *Chosen[T]) Type() string   { return "word" }

func (c *Chosen[T]) Set(s string) error {
	for _, one := range c.Choices {
		if one.Word == s {
			*c.Dst, c.Text = one.Value, s
			return nil
		}
	}
	return fmt.Errorf("must be one of %s", strings.Join(c.Words(), ", "))
}

// Words are what may be chosen.
func (c *Chosen[T]) Words() []string {
	words := make([]string, len(c.Choices))
	for i, one := range c.Choices {
		words[i] = one.Word
	}
	return words
}

// ParseJobs reads a number of calls in flight; 0 finds a good one.
func ParseJobs(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 4096 {
		return 0, fmt.Errorf("want a number from 1 to 4096, or 0 to find a good one")
	}
	return n, nil
}
