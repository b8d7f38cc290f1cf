package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"datamove.dev/mover"
)

// Each function here checks one value and says what it should look like. None
// repeats a value in which somebody may have put a secret.

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		for _, w := range words {
			if s == w {
				return nil
			}
		}
		return fmt.Errorf("is %q; must be one of %s", s, strings.Join(words, ", "))
	}
}

func absolute(s string) error {
	if !filepath.IsAbs(s) || strings.ContainsRune(s, 0) {
		return fmt.Errorf("is %q; must be an absolute path", s)
	}
	return nil
}

func word(s string) error {
	if s == "" || strings.ContainsAny(s, " \t\n/:") {
		return fmt.Errorf("is %q; must be one word", s)
	}
	return nil
}

func endpoint(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return errors.New("must be a URL like https://s3.example.org:9000")
	case u.User != nil:
		return errors.New("must not hold a user or password: name them with credentials")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return errors.New("must end after the host and port: the bucket and prefix have keys of their own")
	}
	return nil
}

func bucket(s string) error {
	if !mover.ValidBucket(s) {
		return fmt.Errorf("is %q; must be a bucket's name: 3 to 255 letters, digits, dots, underscores, colons and hyphens (a prefix has its own key)", s)
	}
	return nil
}

func prefix(s string) error {
	for seg := range strings.SplitSeq(strings.TrimSuffix(s, "/"), "/") {
		if seg == "" || seg == "." || seg == ".." || strings.ContainsRune(seg, 0) {
			return fmt.Errorf("is %q; must be a key prefix like team/a without empty, . or .. segments", s)
		}
	}
	return nil
}

func credentials(s string) error {
	if s == "env" || s == "anonymous" {
		return nil
	}
	if name, ok := strings.CutPrefix(s, "profile:"); ok && word(name) == nil {
		return nil
	}
	if file, ok := CredentialsFile(s); ok && filepath.IsAbs(file) {
		return nil
	}
	return errors.New("must be env, profile:NAME, file:/path or anonymous: the secrets themselves do not belong in this file")
}

func service(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.User != nil {
		return errors.New("must be unix:///path or tcp://host:port")
	}
	if u.Scheme == "unix" && u.Host == "" && filepath.IsAbs(u.Path) {
		return nil
	}
	if _, port, err := net.SplitHostPort(u.Host); u.Scheme == "tcp" && err == nil && port != "" {
		return nil
	}
	return errors.New("must be unix:///path or tcp://host:port")
}

// reserved are words that mean something else before a colon.
var reserved = map[string]bool{"file": true, "s3": true, "dataset": true, "http": true, "https": true}

// tierName keeps tiers apart from drive letters, schemes and paths, so that
// TIER:path has one reading.
func tierName(s string) error {
	if reserved[s] {
		return fmt.Errorf("%q is not for tiers: it begins locations of another kind", s)
	}
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '_') {
			return fmt.Errorf("tier names are small letters, then digits, - and _ too; this is %q", s)
		}
	}
	if len(s) < 2 || len(s) > 63 {
		return fmt.Errorf("tier names have 2 to 63 letters; this is %q", s)
	}
	return nil
}
