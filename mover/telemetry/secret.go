package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// shown is what anybody sees of a secret.
const shown = "[secret]"

// Secret is a text that does not print: not in a log, not by a verb of fmt, not in
// JSON, and not as an unexported field of something that is printed. The zero value is
// the empty text.
type Secret struct {
	text *string // behind a pointer: what prints fields finds an address
}

// NewSecret returns text as a secret.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Format implements fmt.Formatter for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, shown) }

// String implements fmt.Stringer.
func (s Secret) String() string { return shown }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(shown), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
