package config

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a zone is the same on every machine, also where none are installed

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Each function here checks one value and says what it should look like. None
// repeats a value that may hold a secret.

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

// kmsKey is what a header can have; whether there is such a key only the store knows.
func kmsKey(s string) error {
	if s == "" || len(s) > 2048 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("must be the ARN of a key or alias, the id of a key, or alias/NAME")
	}
	return nil
}

func mailServer(s string) error {
	if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" {
		return errors.New("must be HOST:PORT of a mail server, like mail.site:25")
	}
	return nil
}

func address(s string) error {
	if a, err := mail.ParseAddress(s); err != nil || a.Address != s {
		return errors.New("must be an address like datamove@site.example")
	}
	return nil
}

func queue(s string) error {
	if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Count(strings.Trim(u.Path, "/"), "/") != 1 {
		return errors.New("must be the URL of a queue like https://sqs.eu-central-1.amazonaws.com/123456789012/name")
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

// maxSocket is what the kernel takes as the path of a unix socket.
const maxSocket = 107

func listen(s string) error {
	if err := service(s); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		if len(path) > maxSocket || strings.ContainsAny(path, "?#%") {
			return fmt.Errorf("must be the path of a socket: at most %d bytes, without ?, # and %%", maxSocket)
		}
		return nil
	}
	return port(strings.TrimPrefix(s, "tcp://"))
}

// port checks host:port, and nothing behind it.
func port(s string) error {
	_, number, err := net.SplitHostPort(s)
	if n, perr := strconv.Atoi(number); err != nil || perr != nil || n < 0 || n > 65535 {
		return errors.New("must end in a port, a number up to 65535")
	}
	return nil
}

// loopback keeps what needs no certificate on this machine.
func loopback(s string) error {
	host, _, err := net.SplitHostPort(s)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return errors.New("must be an address of this machine alone, as 127.0.0.1:7644 or [::1]:7644: everybody else comes in by listen")
	}
	return port(s)
}

// everywhere checks host:port of what others may reach without a certificate.
func everywhere(s string) error {
	if host, _, err := net.SplitHostPort(s); err != nil || host == "" {
		return errors.New("must be host:port, as 0.0.0.0:7644")
	}
	return port(s)
}

func peers(s string) error {
	if s == PeersOff {
		return nil
	}
	if host, _, err := net.SplitHostPort(s); err != nil || host == "" {
		return fmt.Errorf("must be host:port, as %s, or %s", DefaultPeers, PeersOff)
	}
	return port(s)
}

// name checks a node, a project or a role.
func name(s string) error {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || strings.IndexByte(".-_", c) < 0) {
			return fmt.Errorf("is %q; must be letters, digits, ., - and _, and begin with one of the first two", s)
		}
	}
	if s == "" || len(s) > 128 {
		return errors.New("must have 1 to 128 letters")
	}
	return nil
}

// root checks where a project may work. A tier in it is looked up by [inspector.follow].
func root(s string) error {
	tier, below, ok := strings.Cut(s, ":")
	switch {
	case filepath.IsAbs(s):
		if err := absolute(s); err != nil || s != "/" && prefix(s[1:]) != nil {
			return fmt.Errorf("is %q; must be a path without empty, . and .. segments", s)
		}
		return nil
	case ok && tier == "s3":
		name, key, deeper := strings.Cut(strings.TrimPrefix(below, "//"), "/")
		if !strings.HasPrefix(below, "//") || !mover.ValidBucket(name) || deeper && key != "" && prefix(key) != nil {
			return errors.New("must be s3://bucket or s3://bucket/prefix, without empty, . and .. segments")
		}
		return nil
	case ok && tierName(tier) == nil && !strings.HasPrefix(below, "/"):
		if below == "" || prefix(below) == nil {
			return nil
		}
	}
	return errors.New("must be TIER:path, /path or s3://bucket/prefix, without empty, . and .. segments")
}

// tierOf is the tier that a root or an endpoint names, if it names one.
func tierOf(s string) string {
	tier, _, ok := strings.Cut(s, ":")
	if strings.HasPrefix(s, "/") || ok && tier == "s3" {
		return ""
	}
	return tier
}

// limited checks what a limit is for.
func limited(s string) error {
	if bucket, ok := strings.CutPrefix(s, "s3://"); ok && mover.ValidBucket(bucket) || tierName(s) == nil {
		return nil
	}
	return errors.New("must be a tier, or s3://bucket")
}

func lead(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > time.Hour {
		return errors.New("must be a time like 30s, from 1s to 1h")
	}
	return nil
}

func deadline(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > time.Minute {
		return errors.New("must be a time like 5s, from 1s to 1m")
	}
	return nil
}

func ready(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > 24*time.Hour {
		return errors.New("must be a time like 4m, from 1s to 24h")
	}
	return nil
}

func quiet(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > time.Hour {
		return errors.New("must be a time like 30s, from 1s to 1h")
	}
	return nil
}

func projectIDs(s string) error {
	if _, _, err := units.ParseIDs(s); err != nil {
		return errors.New("must be a range of project IDs like 1000000-1999999")
	}
	return nil
}

func folders(s string) error {
	if _, err := path.Match(s, ""); err != nil || !mover.ValidName(s) || s == "" {
		return errors.New("must be a pattern like runs/*/checkpoints: below the root of the tier, without empty, . and .. segments")
	}
	return nil
}

func scan(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Minute || d > 366*24*time.Hour {
		return errors.New("must be a time like 24h, from 1m to 8784h")
	}
	return nil
}

func verify(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Hour || d > 366*24*time.Hour {
		return errors.New("must be a time like 720h, from 1h to 8784h")
	}
	return nil
}

func zone(s string) error {
	if _, err := time.LoadLocation(s); err != nil || s == "" || s == "Local" {
		return errors.New("must be a time zone like Europe/Berlin or UTC")
	}
	return nil
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

// dollarForm is money as people write it, and as tiering/burst/pricing reads it.
var dollarForm = mover.Pattern(`^\$?([0-9]{1,3}(,[0-9]{3})+|[0-9]{1,9})(\.[0-9]{1,6})?$`)

func dollars(s string) error {
	if !dollarForm().MatchString(s) {
		return fmt.Errorf("is %q; must be dollars, like $20,000 or 1500", s)
	}
	return nil
}

func printable(s string) error {
	if s == "" || len(s) > 200 || mover.Printable(s) != s {
		return errors.New("must be a short text")
	}
	return nil
}
