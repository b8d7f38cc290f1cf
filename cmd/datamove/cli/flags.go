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

// parsedVar adds a flag that parse reads. The word in backquotes in help names its value.
func parsedVar[T any](flags *pflag.FlagSet, dst *T, name string, parse func(string) (T, error), help string) {
	flags.Var(&parsed[T]{dst: dst, parse: parse, kind: "value"}, name, help)
}

// choice is one word of a flag, and what it means.
type choice[T any] struct {
	word  string
	value T
}

// chosen is a flag that takes one of a few words.
type chosen[T any] struct {
	dst     *T
	choices []choice[T]
	text    string
}

func (c *chosen[T]) String() string { return c.text }
func (c *chosen[T]) Type() string   { return "word" }

func (c *chosen[T]) Set(s string) error {
	for _, one := range c.choices {
		if one.word == s {
			*c.dst, c.text = one.value, s
			return nil
		}
	}
	return fmt.Errorf("must be one of %s", strings.Join(c.Words(), ", "))
}

// Words are what may be chosen.
func (c *chosen[T]) Words() []string {
	words := make([]string, len(c.choices))
	for i, one := range c.choices {
		words[i] = one.word
	}
	return words
}

// parseJobs reads a number of calls in flight; 0 finds a good one.
func parseJobs(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 4096 {
		return 0, fmt.Errorf("want a number from 1 to 4096, or 0 to find a good one")
	}
	return n, nil
}
