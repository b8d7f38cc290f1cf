// Package config owns the configuration file: where it is looked for, what may
// stand in it, and the message to the author of a wrong file.
//
// A [Config] is a set of tiers, each a [Tier] with a level and either a path or
// a bucket ([S3]), and the address of a service. For the operator of that service it has where
// it listens and keeps its state, its projects, roles, users, limits and quotas. Its words
// are those of the file, and what a tier, root or member is called there means
// something only to others. Access decides with it, the backends open it.
// Every mistake is a [Problem] with file, line and key. One
// reading finds all of them, so an author can mend them together.
//
// A Config does not change after it was read and may be shared: reading again
// gives another one, and [Changed] says in what they differ. There are no
// secrets in it: credentials are named (a file, a profile, the environment),
// never written down, and a file that tries is refused without being quoted.
// Opening a tier is left to cmd; whether an endpoint answers to doctor.
//
// TestEveryMistakeHasALine shows the promise on mistakes, TestTemplateIsValid
// that what [Template] writes can be read, TestChanged what a reload sees.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"

	"datamove.dev/mover"
)

// Config is what the file and the environment say. The zero value has no tiers
// and no service: work is done in this process, on paths and the AWS environment.
type Config struct {
	File    string          `koanf:"-"`       // where it was read; "" when there is no file
	Tiers   map[string]Tier `koanf:"tiers"`   // named roots of the cluster; none is paths and buckets alone
	Service string          `koanf:"service"` // address of the service that does the work of the command; "" is this process
	GPFS    map[string]GPFS `koanf:"gpfs"`    // file systems of Storage Scale, by the name of their device; none is asked with the mm commands

	// What follows is for the service itself.

	Listen   []string           `koanf:"listen"`   // addresses where the service answers; none is DefaultListen
	Metrics  string             `koanf:"metrics"`  // metrics and the web page, for this machine, without TLS; "" is none
	Scrape   string             `koanf:"scrape"`   // metrics and health, for the network, without TLS; "" is none
	Data     string             `koanf:"data"`     // directory of the state of the service; "" is DefaultData
	Node     string             `koanf:"node"`     // name of this node; "" is the name of the host
	Projects map[string]Project `koanf:"projects"` // groups of users and their roots; none leaves paths to the kernel, and buckets to the account of the service
	Roles    map[string]Role    `koanf:"roles"`    // permissions beside those of all users; none is root and the account of the service, on its own socket
	Limits   []Limit            `koanf:"limits"`   // of bandwidth and calls, of all agents together; none is unlimited
	Quotas   Quotas             `koanf:"quotas"`
	Users    map[string]User    `koanf:"users"`    // users that call from other machines; none is no such user
	Accounts string             `koanf:"accounts"` // directory with the passwd and group of this node; "" is its name service (getent)
	Audit    Audit              `koanf:"audit"`
	Leases   Leases             `koanf:"leases"`
	Agent    Agent              `koanf:"agent"`
	Peers    Peers              `koanf:"peers"`
	Trace    Trace              `koanf:"trace"`
	HSM      []HSM              `koanf:"hsm"` // archives of a Lustre that this node serves; none is no archive
	Join     Join               `koanf:"join"`
	Slurm    Slurm              `koanf:"slurm"`
	Mail     Mail               `koanf:"mail"`
	Webhooks map[string]Webhook `koanf:"webhooks"` // where notices are posted to, by name; none is no webhook
	Burst    Burst              `koanf:"burst"`
	Policies string             `koanf:"policies"` // directory with the policies of the tiers, in files that end in .yaml; "" is none

	settings []Setting
}

// Burst says what training in AWS may cost, and when it may be.
type Burst struct {
	Accounts  map[string]BurstAccount `koanf:"accounts"`  // accounts that pay, by team; none is no bursts
	Prices    string                  `koanf:"prices"`    // directory with a price book for each region, REGION.yaml; "" is the books of the program
	Admission string                  `koanf:"admission"` // file with the rules by which a job may burst; "" is the rules of the program
}

// BurstAccount is the money of a team.
type BurstAccount struct {
	Cap    string `koanf:"cap"`    // most that the bursts of the team may cost in a period
	Period string `koanf:"period"` // a calendar month, or all time; "" is month
	Ask    string `koanf:"ask"`    // contact for a higher cap; "" is none
}

// Mail says how notices of policies are mailed. Without a server no mail is sent.
type Mail struct {
	Server string `koanf:"server"` // a server that takes mail of this host
	From   string `koanf:"from"`   // the sender
	Domain string `koanf:"domain"` // of users without a domain in their name; "" is that of from
}

// Webhook is where notices are posted to: those of rules that notify webhook:NAME, and of runs of policies that were stopped.
type Webhook struct {
	File   string `koanf:"file"`   // file of mode 0600 with the URL: that of a chat is its password
	Format string `koanf:"format"` // what is posted: an object with schema, to, subject, text and time, or a message of a chat; "" is json
}

// Tier is one named root of the cluster.
type Tier struct {
	Level     string        `koanf:"level"`      // hot is NVMe of nodes, warm a parallel file system, cold objects
	Path      string        `koanf:"path"`       // root of a tier that is a directory; "" is a bucket (s3)
	Kind      string        `koanf:"kind"`       // the file system that has to be at path, so that one that is not mounted is noticed; "" is any
	Ephemeral bool          `koanf:"ephemeral"`  // scratch: purge may remove what is there
	NodeLocal bool          `koanf:"node_local"` // each node has its own directory at that path
	Scan      time.Duration `koanf:"scan"`       // how old its catalog may become before the tier is scanned again; 0 is a scan on request only
	Verify    time.Duration `koanf:"verify"`     // time in which the whole catalog is compared once with the tier, a part each hour: feeds do not tell all; 0 is never
	Feed      string        `koanf:"feed"`       // source of changes, which keeps the catalog fresh: inotify (disks of one node) or changelog (Lustre) of a path, events of a bucket; "" is none
	Queue     string        `koanf:"queue"`      // URL of the queue (SQS) to which a bucket of AWS sends its events, with feed: events; "" is a bucket that sends them itself (MinIO)
	Reader    string        `koanf:"reader"`     // reader of the change log of a Lustre, as it was registered with each MDT: cl1; with feed: changelog; "" is none
	Cache     *Cache        `koanf:"cache"`      // when replicas leave the tier; nil is never
	KeepFree  Percent       `koanf:"keep_free"`  // part of the file system at path that datamove leaves free; 0 is none
	S3        *S3           `koanf:"s3"`         // root of a tier that is a bucket; nil is a directory (path)

	Checkpoints *Checkpoints `koanf:"checkpoints"` // where training jobs save; nil is no checkpoints
}

// Checkpoints says where in a tier training jobs save.
type Checkpoints struct {
	Folders []string      `koanf:"folders"` // patterns of directories below the root, each with the checkpoints of one run: runs/*/checkpoints
	Quiet   time.Duration `koanf:"quiet"`   // time without a change after which a checkpoint is complete; 0 is DefaultQuiet
}

// S3 is a tier in a bucket.
type S3 struct {
	Endpoint    string `koanf:"endpoint"`    // URL of the store; "" is AWS
	Bucket      string `koanf:"bucket"`      // the bucket
	Prefix      string `koanf:"prefix"`      // of the keys of the tier; "" is the whole bucket
	Region      string `koanf:"region"`      // region of the bucket; "" is found out
	Credentials string `koanf:"credentials"` // where the keys are: a file has mode 0600 and lines AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=…; "" is the chain of the AWS SDK
	CA          string `koanf:"ca"`          // file with the certificates of the authority of the endpoint; "" is the authorities of the system
	PathStyle   *bool  `koanf:"path_style"`  // whether the bucket stands in the path of URLs, and not in the name of the host; nil is found out
	Client      string `koanf:"client"`      // the library that talks to the store; "" is auto
	Encryption  string `koanf:"encryption"`  // how the store has to encrypt what is written; a store that does not confirm it is sent nothing; "" is as the bucket does
	KMSKey      string `koanf:"kms_key"`     // the key for it; "" is the usual key of the store

	Trusted       bool   `koanf:"trusted"`        // setuid bits, attributes of security.* and trusted.*, and devices come from the bucket without being asked for by name
	RequireRegion string `koanf:"require_region"` // the region in which the bucket has to be, or nothing is read and written; "" is any
}

// Setting is one value and where it comes from.
type Setting struct {
	Key   string `json:"key"` // with dots, and the place in a list: projects.vision.roots[0]
	Value string `json:"value"`
	From  string `json:"from"` // "/etc/datamove/config.yaml:7" or "environment DATAMOVE_SERVICE"
}

// Settings returns every value that is set, sorted by key, lists in their order.
// None is a secret.
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

// userFile is the file of the user that runs us; "" without a home.
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
// DATAMOVE_CONFIG names it. Load treats a file in a folder without permission to enter
// as absent: HOME is often left from another account (sudo -u, setpriv, a service).
// One that is seen and may not be read is an error.
func Load(getenv func(string) string) (*Config, error) {
	for _, file := range Candidates(getenv) {
		text, err := read(file)
		if err != nil && getenv("DATAMOVE_CONFIG") == "" && !seen(file) {
			continue
		}
		if err != nil {
			return nil, Problems{{File: file, What: reason(err), Mend: "check DATAMOVE_CONFIG or --config, or write one with: datamove config init"}}
		}
		return Parse(file, text, getenv)
	}
	return Parse("", nil, getenv)
}

// seen tells whether file is there, as far as this process may look.
func seen(file string) bool {
	_, err := os.Lstat(file)
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
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
	settings, problems := inspect(file, text)
	if len(problems) > 0 {
		return nil, problems
	}
	k := koanf.New(".")
	if err := k.Load(rawbytes.Provider(text), yaml.Parser()); err != nil {
		return nil, Problems{{File: file, What: err.Error()}}
	}
	c := &Config{Tiers: map[string]Tier{}}
	if err := k.Unmarshal("", c); err != nil {
		return nil, Problems{{File: file, What: err.Error()}}
	}
	c.File, c.settings = file, settings
	if err := c.environment(getenv); err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.settings, func(a, b Setting) int { return strings.Compare(listKey(a.Key), listKey(b.Key)) })
	return c, nil
}

// listKey is a key without its place in a list and what is below that.
func listKey(key string) string {
	list, _, _ := strings.Cut(key, "[")
	return list
}

// environment takes over what the environment says instead of the file.
func (c *Config) environment(getenv func(string) string) error {
	addr := getenv("DATAMOVE_SERVICE")
	if addr == "" {
		return nil
	}
	if err := service(addr); err != nil {
		return Problems{{File: "environment", Key: "DATAMOVE_SERVICE", What: err.Error()}}
	}
	c.Service = addr
	c.settings = slices.DeleteFunc(c.settings, func(s Setting) bool { return s.Key == "service" })
	c.settings = append(c.settings, Setting{"service", addr, "environment DATAMOVE_SERVICE"})
	return nil
}

// CredentialsFile returns the file that a credentials value names, if it names one.
func CredentialsFile(credentials string) (string, bool) {
	return strings.CutPrefix(credentials, "file:")
}

// OthersMayRead reports if a file of secrets is open to users other than its owner and reader, a user ID. A reader
// that is not the owner reads it by its group: that is how Kubernetes gives a Secret to a pod that is not root.
func OthersMayRead(info fs.FileInfo, reader int) bool {
	others := info.Mode().Perm() & 0o077
	if s, ok := info.Sys().(*syscall.Stat_t); ok && reader != 0 && s.Uid != uint32(reader) {
		others &^= 0o040
	}
	return others != 0
}

// Warnings names what works but should be mended: credentials that other people
// on this machine can read.
func (c *Config) Warnings() []Problem { return c.warnings("") }

// TierWarnings are the Warnings of one tier.
func (c *Config) TierWarnings(tier string) []Problem { return c.warnings("tiers." + tier + ".") }

func (c *Config) warnings(below string) []Problem {
	var found []Problem
	for _, s := range c.settings {
		file, ok := CredentialsFile(s.Value)
		if strings.HasPrefix(s.Key, "webhooks.") && strings.HasSuffix(s.Key, ".file") {
			file, ok = s.Value, true
		} else {
			ok = ok && strings.HasSuffix(s.Key, ".s3.credentials")
		}
		if !ok || !strings.HasPrefix(s.Key, below) {
			continue
		}
		if info, err := os.Stat(file); err == nil && OthersMayRead(info, os.Geteuid()) {
			found = append(found, Problem{File: file, Key: s.Key,
				What: fmt.Sprintf("others may read this file of secrets (mode %04o)", info.Mode().Perm()),
				Mend: "chmod 600 " + mover.Printable(file)})
		}
	}
	return found
}
