package pki

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func newToken(t *testing.T, a *Authority, name string) (Token, TokenRecord) {
	t.Helper()
	token, record, err := a.NewToken(name, 0)
	must.Do(t, err)
	return token, record
}

func TestTokenIsReadBack(t *testing.T) {
	a := open(t)
	seen := map[string]bool{}
	for _, name := range []string{"gpu-07", "gpu-07.site.example", "a", strings.Repeat("n", maxName)} {
		token, record := newToken(t, a, name)
		back, err := ParseToken(" " + token.Text() + "\n")
		if err != nil || back != token {
			t.Errorf("%s: %v", name, err)
		}
		if back.Name != name || back.Pin != a.Pin() || back.ID() != record.ID || record.Check(back, name) != nil {
			t.Errorf("%s: name %s, id %s of %s, check %v", name, back.Name, back.ID(), record.ID, record.Check(back, name))
		}
		if strings.ContainsAny(token.Text(), " /\\'\"$&;|<>()*?") {
			t.Errorf("%s: a shell would read it", name)
		}
		seen[token.ID()] = true
	}
	if len(seen) != 4 {
		t.Error("two tokens have one id")
	}
}

// Every single mistake of a hand is told as such, and so is a part that is missing.
func TestTypingErrors(t *testing.T) {
	token, _ := newToken(t, open(t), "gpu-07")
	text := token.Text()
	for i := range len(text) {
		for _, c := range "a7.-Zz =\x00é" {
			typed := text[:i] + string(c) + text[i+1:]
			if typed == text || strings.TrimSpace(typed) == text {
				continue
			}
			if _, err := ParseToken(typed); err == nil {
				t.Fatalf("%q is taken", typed)
			} else {
				says(t, err, mover.ErrUsage, "join token")
			}
		}
		if i > 0 && text[i] != text[i-1] {
			swapped := text[:i-1] + string(text[i]) + string(text[i-1]) + text[i+1:]
			if _, err := ParseToken(swapped); err == nil {
				t.Fatalf("%q is taken", swapped)
			}
		}
		_, err := ParseToken(text[:i])
		says(t, err, mover.ErrUsage)
		_, err = ParseToken(text[i+1:])
		says(t, err, mover.ErrUsage)
	}
	for typed, want := range map[string]string{
		"":                                   "does not begin",
		"hello":                              "does not begin",
		"dmj2" + text[4:]:                    `version "2"`,
		"dmj" + text[4:]:                     `version ""`,
		strings.ToUpper(text):                "does not begin",
		text[:20]:                            "copy it again, wholly",
		text + "a":                           "copy it again, wholly",
		strings.Replace(text, "07", "08", 1): "mistyped",
		"dmj1.." + text[12:]:                 "name of a node",
		strings.Repeat("dmj1.", 1000):        "too long",
	} {
		_, err := ParseToken(typed)
		says(t, err, mover.ErrUsage, want)
	}
}

func TestWhoMayJoin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := open(t)
		token, record := newToken(t, a, "gpu-07")
		other, _ := newToken(t, a, "gpu-07")
		renamed, repinned := token, token
		renamed.Name = "gpu-08"
		repinned.Pin[0] ^= 1 // with a sum that is right
		if back, err := ParseToken(repinned.Text()); err != nil || back != repinned {
			t.Fatal(err)
		}
		used := record
		used.Used = time.Now()
		for _, row := range []struct {
			name   string
			record TokenRecord
			token  Token
			node   string
			want   string
		}{
			{"its node", record, token, "gpu-07", ""},
			{"another node", record, token, "gpu-08", "for node gpu-07"},
			{"another token", record, other, "gpu-07", ErrToken.Error()},
			{"another name in it", record, renamed, "gpu-08", ErrToken.Error()},
			{"another pin in it", record, repinned, "gpu-07", ErrToken.Error()},
			{"no token", record, Token{}, "gpu-07", ErrToken.Error()},
			{"a second time", used, token, "gpu-07", "was used at"},
			{"another node, a second time", used, other, "gpu-08", ErrToken.Error()},
			{"no record", TokenRecord{}, token, "gpu-07", ErrToken.Error()},
		} {
			err := row.record.Check(row.token, row.node)
			if row.want == "" && err != nil {
				t.Errorf("%s: %v", row.name, err)
			} else if row.want != "" {
				says(t, err, mover.ErrPermission, row.want)
			}
		}
		time.Sleep(DefaultTTL - time.Second)
		must.Tell(t, record.Check(token, "gpu-07"))
		time.Sleep(time.Second)
		says(t, record.Check(token, "gpu-07"), mover.ErrPermission, "ended at")
	})
}

func TestTokenLimits(t *testing.T) {
	a := open(t)
	for _, ttl := range []time.Duration{-1, MaxTTL + 1} {
		_, _, err := a.NewToken("gpu-07", ttl)
		says(t, err, mover.ErrUsage)
	}
	_, _, err := a.NewToken("gpu 07", 0)
	says(t, err, mover.ErrUsage)
}

// However a token or its record is printed, the secret is not.
func TestTokenIsNotTold(t *testing.T) {
	token, record := newToken(t, open(t), "gpu-07")
	payload := token.Text()[len(token.head()):]
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", token, "record", record)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", token, "record", record)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&log, verb+" "+verb+"\n", token, &token)
		fmt.Fprintf(&log, verb+"\n", struct{ T Token }{token})
	}
	must.Do(t, json.NewEncoder(&log).Encode(token))
	for _, secret := range []string{payload[:12], fmt.Sprintf("%x", token.secret[:4]), fmt.Sprintf("%X", token.secret[:4]),
		strings.Trim(fmt.Sprintf("%d", token.secret[:4]), "[]"), fmt.Sprintf("%#v", token.secret[:3])[7:]} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the secret %s is told", secret)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	var token Token
	token.Name = "gpu-07"
	f.Add(token.Text())
	f.Add("dmj1.a.b")
	f.Add("dmj1....")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			return
		}
		if token.Text() != strings.TrimSpace(text) || !ValidName(token.Name) {
			t.Errorf("%q was read as %q", text, token.Text())
		}
	})
}
