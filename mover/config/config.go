// Package config owns the configuration file: where it is looked for, what may
// stand in it, and what to tell a person whose file is wrong.
//
// A [Config] is a set of tiers, each a [Tier] with a level and either a path or
// a bucket ([S3]), and the address of a service. Its words are those of the file.
// Every mistake is a [Problem] with file, line and key; all of them are found in
// one reading, so nobody mends a file one error at a time.
//
// A Config does not change after it was read and may be shared. There are no
// secrets in it: credentials are named (a file, a profile, the environment),
// never written down, and a file that tries is refused without being quoted.
// Opening a tier is left to cmd; whether an endpoint answers to doctor.
//
// TestEveryMistakeHasALine shows the promise on mistakes, TestTemplateIsValid
// that what [Template] writes can be read.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"

	"datamove.dev/mover"
)

// Config is what the file and the environment say. The zero value has no tiers
// and no service: work is done in this process, on paths and the AWS environment.
type Config struct {
	File    string // where it was read; "" when there is no file
	Tiers   map[string]Tier
	Service string // address of a service, unix:///path or tcp://host:port; "" is this process

	settings []Setting
}

// Tier is one named root of the cluster.
type Tier struct {
	Level     string `koanf:"level"`     // hot, warm or cold
	Path      string `koanf:"path"`      // absolute; "" when it is a bucket
	Ephemeral bool   `koanf:"ephemeral"` // purge may remove what is here
	S3        *S3    `koanf:"s3"`        // nil when it is a path
}

// S3 is a tier in a bucket.
type S3 struct {
	Endpoint    string `koanf:"endpoint"` // URL; "" is AWS
	Bucket      string `koanf:"bucket"`
	Prefix      string `koanf:"prefix"`
	Region      string `koanf:"region"`
	Credentials string `koanf:"credentials"` // "env", "profile:NAME", "file:/path" or "anonymous"; "" is the chain of the AWS SDK
	CA          string `koanf:"ca"`          // file with the certificates that sign the endpoint's
	PathStyle   *bool  `koanf:"path_style"`  // nil finds out
	Client      string `koanf:"client"`      // auto, minio or aws
}

// Setting is one value and where it comes from.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // "/etc/datamove/config.yaml:7" or "environment DATAMOVE_SERVICE"
}

// Settings returns every value that is set, sorted by key. None is a secret.
func (c *Config) Settings() []Setting { return slices.Clone(c.settings) }

// maxBytes bounds a configuration file: a thousand tiers take a quarter of it.
const maxBytes = 1 << 20

// Candidates returns the files where the configuration may be, best first. With
// DATAMOVE_CONFIG there is no other.
func Candidates(getenv func(string) string) []string {
	if named := getenv("DATAMOVE_CONFIG"); named != "" {
		return []string{named}
	}
	var files []string
	if home := userFile(getenv); home != "" {
		files = append(files, home)
	}
	return append(files, "/etc/datamove/config.yaml")
}

// userFile is the file of the person who runs us; "" when they have no home.
func userFile(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "datamove", "config.yaml")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "datamove", "config.yaml")
	}
	return ""
}

// Load reads the first of the candidates that exists. Having none is fine, unless
// DATAMOVE_CONFIG names it.
func Load(getenv func(string) string) (*Config, error) {
	for _, file := range Candidates(getenv) {
		text, err := read(file)
		if errors.Is(err, fs.ErrNotExist) && getenv("DATAMOVE_CONFIG") == "" {
			continue
		}
		if err != nil {
			return nil, Problems{{File: file, What: reason(err), Mend: "check DATAMOVE_CONFIG or --config, or write one with: datamove config init"}}
		}
		return Parse(file, text, getenv)
	}
	return Parse("", nil, getenv)
}

// reason is err without the path that the problem shows already.
func reason(err error) string {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err.Error()
	}
	return err.Error()
}

func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("is not a regular file")
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("has %d bytes; a configuration has at most %d", info.Size(), maxBytes)
	}
	return os.ReadFile(file)
}

// Parse reads the text of a file, which may be empty, and what the environment adds to it.
func Parse(file string, text []byte, getenv func(string) string) (*Config, error) {
	lines, problems := inspect(file, text)
	if len(problems) > 0 {
		return nil, problems
	}
	k := koanf.New(".")
	if err := k.Load(rawbytes.Provider(text), yaml.Parser()); err != nil {
		return nil, Problems{{File: file, What: err.Error()}}
	}
	from := make(map[string]string, len(lines))
	for key, line := range lines {
		from[key] = fmt.Sprintf("%s:%d", file, line)
	}
	if addr := getenv("DATAMOVE_SERVICE"); addr != "" {
		if err := service(addr); err != nil {
			return nil, Problems{{File: "environment", Key: "DATAMOVE_SERVICE", What: err.Error()}}
		}
		if err := k.Set("service", addr); err != nil {
			return nil, err
		}
		from["service"] = "environment DATAMOVE_SERVICE"
	}
	return decode(file, k, from)
}

func decode(file string, k *koanf.Koanf, from map[string]string) (*Config, error) {
	c := &Config{File: file, Service: k.String("service"), Tiers: map[string]Tier{}}
	if err := k.Unmarshal("tiers", &c.Tiers); err != nil {
		return nil, Problems{{File: file, Key: "tiers", What: err.Error()}}
	}
	for _, key := range k.Keys() {
		if value := k.Get(key); value != nil {
			c.settings = append(c.settings, Setting{key, fmt.Sprint(value), from[key]})
		}
	}
	return c, nil
}

// CredentialsFile returns the file that a credentials value names, if it names one.
func CredentialsFile(credentials string) (string, bool) {
	return strings.CutPrefix(credentials, "file:")
}

// Warnings names what works but should be mended: credentials that other people
// on this machine can read.
func (c *Config) Warnings() []Problem {
	var found []Problem
	for _, s := range c.settings {
		file, ok := CredentialsFile(s.Value)
		if !ok || !strings.HasSuffix(s.Key, ".s3.credentials") {
			continue
		}
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
			found = append(found, Problem{File: file, Key: s.Key,
				What: fmt.Sprintf("others may read this file of secrets (mode %04o)", info.Mode().Perm()),
				Mend: "chmod 600 " + mover.Printable(file)})
		}
	}
	return found
}
