package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/mover"
)

// rule says what may stand at a key: text that passes check, truth, a number, a
// list, a table with the given keys, or a table of each under names of the user's
// choice.
type rule struct {
	check  func(text string) error
	truth  bool
	number int64 // a whole number from 1 to this one
	zero   bool  // or 0
	items  *rule // of a list
	keys   map[string]rule
	need   []string // keys that must be there
	each   *rule
	named  func(name string) error               // of the names above each
	whole  func(has map[string]*yaml.Node) error // of a table as a whole
	most   int                                   // of a list and of each; 0 is 1,000
	tier   func(text string) string              // the tier that text names, which must be in the file; "" is none
}

// most of a list and of a table of each, where the rule says nothing else.
const most = 1000

// schema is the whole file.
var schema = rule{keys: map[string]rule{
	"tiers":    {named: tierName, each: &tierRule},
	"service":  {check: service},
	"listen":   {items: &rule{check: listen}, most: 16},
	"metrics":  {check: loopback},
	"scrape":   {check: everywhere},
	"data":     {check: absolute},
	"node":     {check: name},
	"projects": {named: name, each: &projectRule},
	"roles":    {named: name, each: &roleRule},
	"limits":   {items: &limitRule},
	"quotas":   quotasRule,
	"accounts": {check: absolute},
	"audit":    {keys: map[string]rule{"dir": {check: absolute}, "sync": {truth: true}}},
	"leases":   {keys: map[string]rule{"lead": {check: lead}}},
	"agent":    {keys: map[string]rule{"spares": {number: 64, zero: true}, "journals": {check: absolute}}},
	"peers":    {keys: map[string]rule{"listen": {check: peers}, "host": {check: name}}},
	"slurm":    slurmRule,
	"policies": {check: absolute},
	"burst":    burstRule,
	"mail":     {need: []string{"server", "from"}, keys: map[string]rule{"server": {check: mailServer}, "from": {check: address}, "domain": {check: name}}},
	"webhooks": {named: name, most: 100, each: &rule{need: []string{"file"}, keys: map[string]rule{"file": {check: absolute}, "format": {check: oneOf("json", "slack", "mattermost")}}}},
	"gpfs":     {named: name, each: &gpfsRule, most: 100},
	"hsm":      {items: &hsmRule, most: 32},
	"join":     {keys: map[string]rule{"kubernetes": kubernetesRule}},
	"trace":    {need: []string{"endpoint"}, keys: map[string]rule{"endpoint": {check: endpoint}}},
	"users":    {named: account, whole: ownCertificates, most: 10_000, each: &rule{need: []string{"certificate"}, keys: map[string]rule{"certificate": {check: commonName}}}},
}}

var burstRule = rule{keys: map[string]rule{
	"prices":    {check: absolute},
	"admission": {check: absolute},
	"accounts": {named: name, each: &rule{need: []string{"cap"}, keys: map[string]rule{
		"cap": {check: dollars}, "period": {check: oneOf("month", "total")}, "ask": {check: printable},
	}}},
}}

var slurmRule = rule{keys: map[string]rule{
	"cluster":  {check: name},
	"scratch":  {check: word},
	"state":    {check: absolute},
	"deadline": {check: deadline},
	"warm":     {check: word},
	"records":  {check: absolute},
	"ready":    {check: ready},
	"most":     {check: checked[Size]},
	"quiet":    {check: quiet},

	"project_ids": {check: projectIDs},
}}

var tierRule = rule{
	keys: map[string]rule{
		"level":      {check: oneOf("hot", "warm", "cold")},
		"path":       {check: absolute},
		"kind":       {check: oneOf(mover.FileSystemKinds...)},
		"ephemeral":  {truth: true},
		"node_local": {truth: true},
		"scan":       {check: scan},
		"verify":     {check: verify},
		"feed":       {check: oneOf("inotify", "changelog", "events")},
		"queue":      {check: queue},
		"reader":     {check: word},
		"cache": {need: []string{"high", "low"}, whole: lowBelowHigh, keys: map[string]rule{
			"high": {check: checked[Percent]},
			"low":  {check: checked[Percent]},
		}},
		"keep_free": {check: checked[Percent]},
		"checkpoints": {need: []string{"folders"}, keys: map[string]rule{
			"folders": {items: &rule{check: folders}, most: 100},
			"quiet":   {check: quiet},
		}},
		"s3": {need: []string{"bucket"}, whole: keyAndEncryption, keys: map[string]rule{
			"endpoint":    {check: endpoint},
			"bucket":      {check: bucket},
			"prefix":      {check: prefix},
			"region":      {check: word},
			"credentials": {check: credentials},
			"ca":          {check: absolute},
			"path_style":  {truth: true},
			"client":      {check: oneOf("auto", "minio", "aws")},
			"encryption":  {check: oneOf("aws:kms", "aws:kms:dsse", "AES256")},
			"kms_key":     {check: kmsKey},

			"require_region": {check: word},
			"trusted":        {truth: true},
		}},
	},
	need:  []string{"level"},
	whole: pathOrBucket,
}

var projectRule = rule{
	keys: map[string]rule{
		"roots":   {items: &rule{check: root, tier: tierOf}},
		"reads":   {items: &rule{check: root, tier: tierOf}},
		"members": {items: &rule{check: member}},
		"weight":  {number: 1000},
		"s3":      {need: []string{"credentials"}, keys: map[string]rule{"credentials": {check: credentials}}},
	},
	need: []string{"roots", "members"},
}

var roleRule = rule{
	keys: map[string]rule{"members": {items: &rule{check: member}}, "may": {items: &rule{check: action}, most: 100}},
	need: []string{"members", "may"},
}

var limitRule = rule{
	keys: map[string]rule{
		"endpoint":  {check: limited, tier: tierOf},
		"direction": {check: oneOf("read", "write")},
		"rate":      {check: checked[Rate]},
		"ops":       {number: 1_000_000_000},
		"windows":   {items: &rule{check: window}, most: 50},
		"zone":      {check: zone},
	},
	need:  []string{"endpoint"},
	whole: limitsSomething,
}

func pathOrBucket(has map[string]*yaml.Node) error {
	feed := ""
	if has["feed"] != nil {
		feed = has["feed"].Value
	}
	switch {
	case feed != "" && (feed == "events") != (has["path"] == nil):
		return errors.New("feed is events of a bucket, and inotify or changelog of a path")
	case has["queue"] != nil && feed != "events":
		return errors.New("has a queue: that is for feed: events of a bucket")
	case (feed == "changelog") != (has["reader"] != nil):
		return errors.New("feed: changelog and reader go together: the reader is the one that was registered with every MDT (lctl changelog_register)")
	case has["path"] != nil && has["s3"] != nil:
		return errors.New("has both path and s3: a tier is one of them")
	case has["path"] == nil && has["s3"] == nil:
		return errors.New("has neither path nor s3: say where the tier is")
	case has["s3"] != nil && (has["node_local"] != nil || has["cache"] != nil || has["kind"] != nil || has["keep_free"] != nil):
		return errors.New("is a bucket: kind, node_local, cache and keep_free are for tiers with a path")
	}
	return nil
}

// keyAndEncryption refuses a key that nothing would be encrypted with, and two regions.
func keyAndEncryption(has map[string]*yaml.Node) error {
	value := func(key string) string {
		if has[key] == nil {
			return ""
		}
		return has[key].Value
	}
	switch {
	case has["kms_key"] != nil && !strings.HasPrefix(value("encryption"), "aws:kms"):
		return errors.New("has a kms_key: that is for encryption: aws:kms or aws:kms:dsse")
	case has["region"] != nil && has["require_region"] != nil && value("region") != value("require_region"):
		return errors.New("has a region, and require_region is another: a bucket is in one")
	}
	return nil
}

// lowBelowHigh says nothing of values that are wrong by themselves.
func lowBelowHigh(has map[string]*yaml.Node) error {
	var high, low Percent
	if has["high"] == nil || has["low"] == nil || high.UnmarshalText([]byte(has["high"].Value)) != nil || low.UnmarshalText([]byte(has["low"].Value)) != nil {
		return nil
	}
	if low >= high {
		return errors.New("evicts above high until low: low must be less than high")
	}
	return nil
}

func limitsSomething(has map[string]*yaml.Node) error {
	switch {
	case has["rate"] == nil && has["ops"] == nil:
		return errors.New("limits nothing: add rate, ops or both")
	case has["zone"] != nil && has["windows"] == nil:
		return errors.New("has a zone and no windows: a zone is for the times of windows")
	}
	return nil
}

// ownCertificates sees to it that a certificate is one person.
func ownCertificates(has map[string]*yaml.Node) error {
	owner := map[string]string{}
	for _, user := range slices.Sorted(maps.Keys(has)) {
		var of struct{ Certificate string }
		if has[user].Decode(&of) != nil || of.Certificate == "" {
			continue // has its own problem
		}
		if other, taken := owner[of.Certificate]; taken {
			return fmt.Errorf("%q and %q have the same certificate: a certificate is one person", other, user)
		}
		owner[of.Certificate] = user
	}
	return nil
}
