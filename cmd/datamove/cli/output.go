package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
	yaml "go.yaml.in/yaml/v3"
)

// Format is what -o asks for.
type Format string

// The formats. Every command has table, json and yaml; those that list things
// have jsonl, one object per line as they come, and name.
const (
	FormatTable Format = "table"
	FormatJSON  Format = "json"
	FormatJSONL Format = "jsonl"
	FormatYAML  Format = "yaml"
	FormatName  Format = "name"
	FormatWide  Format = "wide" // a table of more
)

// FormatVar adds -o with the given formats, the first of which is the default.
func FormatVar(flags *pflag.FlagSet, dst *Format, allowed ...Format) {
	c := &Chosen[Format]{Dst: dst, Text: string(allowed[0])}
	for _, f := range allowed {
		c.Choices = append(c.Choices, Choice[Format]{string(f), f})
	}
	*dst = allowed[0]
	flags.VarP(c, "output", "o", "print as `FORMAT`: "+strings.Join(c.Words(), ", "))
}

// WriteObject writes one value as JSON or YAML. The keys of YAML are those of
// JSON, in the same order.
func WriteObject(w io.Writer, f Format, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if f != FormatYAML {
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	}
	var node yaml.Node // JSON is YAML
	if err := yaml.Unmarshal(text, &node); err != nil {
		return err
	}
	blockStyle(&node, map[string]yaml.Style{})
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	return enc.Close()
}

// blockStyle makes of the JSON what a person would write. Texts are quoted where
// YAML, old or new, would not read them as texts; styles remembers how, for keys
// come again and again.
func blockStyle(n *yaml.Node, styles map[string]yaml.Style) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		style, known := styles[n.Value]
		if !known {
			var quoted yaml.Node
			if quoted.Encode(n.Value) == nil {
				style = quoted.Style
			}
			styles[n.Value] = style
		}
		n.Style = style
	}
	for _, child := range n.Content {
		blockStyle(child, styles)
	}
}

// Lines writes whole lines from many goroutines and keeps the first error: a full
// disk or a closed pipe behind stdout is found when everything is over.
type Lines struct {
	mu  sync.Mutex // guards what is below
	buf *bufio.Writer
	err error
}

// NewLines begins to write lines; Flush ends it.
func NewLines(w io.Writer) *Lines { return &Lines{buf: bufio.NewWriterSize(w, 64<<10)} }

// JSON writes v as one line.
func (l *Lines) JSON(v any) {
	text, err := json.Marshal(v)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.write(append(text, '\n'))
}

// Printf writes one line of text.
func (l *Lines) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(fmt.Appendf(nil, format+"\n", args...))
}

// Raw writes text as it is.
func (l *Lines) Raw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write([]byte(text))
}

// Write implements io.Writer.
func (l *Lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(text)
	return len(text), l.err
}

func (l *Lines) write(text []byte) {
	if l.err == nil {
		_, l.err = l.buf.Write(text)
	}
}

// Flush writes what is buffered and returns the first error of all.
func (l *Lines) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.buf.Flush(); l.err == nil {
		l.err = err
	}
	return l.err
}

// Shown is foreign text as a terminal may have it: nothing in it moves the
// cursor, changes colours or begins a line.
func Shown(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if !unicode.IsGraphic(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Coloured is text for stdout in a colour, where that is wanted (no-color.org).
func (a *App) Coloured(colour, text string) string {
	if _, ok := a.Terminal(a.Out); !ok || colour == "" || a.Env("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// The colours of good, of what a person should look at, and of bad.
const (
	Green  = "32"
	Yellow = "33"
	Red    = "31"
)

// NameView is a name in JSON, which has no bytes that are not UTF-8: such a name
// is in name64 as it is (base64), and in name only for people.
type NameView struct {
	Name   string `json:"name"`
	Name64 []byte `json:"name64,omitempty"`
}

// ViewName is a name as JSON has it.
func ViewName(name string) NameView {
	if utf8.ValidString(name) {
		return NameView{Name: name}
	}
	return NameView{Name: strings.ToValidUTF8(name, "�"), Name64: []byte(name)}
}

// Note tells a person something beside what is printed.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintf(a.Err, "note: %s\n", Shown(fmt.Sprintf(format, args...)))
	}
}
