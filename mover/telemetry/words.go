package telemetry

import (
	"maps"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// other is the label of everything that has no word of its own.
const other = "other"

// How many values a label with names as its values can have.
const (
	maxTiers    = 100
	maxProjects = 1000
	maxAgents   = 10_000
	maxWord     = 128 // bytes
)

// Direction says which way bytes pass an endpoint.
type Direction string

// The directions.
const (
	Read  Direction = "read"
	Write Direction = "write"
)

// Op is a metadata operation of a file system, or a request to a store, as meter
// names it.
type Op string

// The operations.
const (
	OpList    Op = "list" // entries
	OpStat    Op = "stat" // HEAD too
	OpOpen    Op = "open"
	OpGet     Op = "get"    // ranges that were read
	OpCreate  Op = "create" // files, under temporary names
	OpMkdir   Op = "mkdir"
	OpLink    Op = "link"    // symbolic and hard
	OpPart    Op = "part"    // written, also of a multipart upload
	OpCopy    Op = "copy"    // by the store, or a reflink
	OpPublish Op = "publish" // renames, and PUTs of a store
	OpSetattr Op = "setattr"
	OpRemove  Op = "remove" // DELETE too
	OpSync    Op = "sync"
)

// BatchEvent is what became of a batch.
type BatchEvent string

// The events of a batch.
const (
	BatchGiven     BatchEvent = "given"      // by its lead
	BatchLeased    BatchEvent = "leased"     // to an agent
	BatchDone      BatchEvent = "done"       // replied
	BatchRequeued  BatchEvent = "requeued"   // its agent gave it back
	BatchStolen    BatchEvent = "stolen"     // from an agent that was slow
	BatchTakenOver BatchEvent = "taken_over" // from an agent that was lost
)

// Denial is why a request was denied.
type Denial string

// The reasons to deny.
const (
	DeniedIdentity    Denial = "identity"    // the caller is not known
	DeniedCertificate Denial = "certificate" // forged, foreign, expired or revoked
	DeniedRole        Denial = "role"        // the role may not do that
	DeniedOwner       Denial = "owner"       // it belongs to another user
	DeniedRoot        Denial = "root"        // outside the roots of the project
	DeniedRate        Denial = "rate"        // too many requests
	DeniedRoute       Denial = "route"       // no caller may
)

// HSMAction is what a copytool was asked to do.
type HSMAction string

// The actions of HSM.
const (
	HSMArchive HSMAction = "archive"
	HSMRestore HSMAction = "restore"
	HSMRemove  HSMAction = "remove"
)

// The results of an action of HSM.
const (
	hsmDone   = "done"
	hsmFailed = "failed"
)

// CertificateUse is what a certificate is for.
type CertificateUse string

// The uses of certificates.
const (
	CertServer    CertificateUse = "server"
	CertAgent     CertificateUse = "agent"
	CertAuthority CertificateUse = "authority"
)

// words is a set of words of ours: each value of the label is one of them.
type words map[string]bool

// closed has, for each label with a fixed set of values, the values.
var closed = map[string]words{
	"class":     set(enum(datamovev1.TaskClass_name, "TASK_CLASS_")),
	"state":     set(taskStates, replicaStates, agentStates, []string{"queued", "leased"}),
	"kind":      set(kindNames()),
	"direction": set([]Direction{Read, Write}),
	"op": set([]Op{OpList, OpStat, OpOpen, OpGet, OpCreate, OpMkdir, OpLink, OpPart, OpCopy, OpPublish,
		OpSetattr, OpRemove, OpSync}),
	"event":  set([]BatchEvent{BatchGiven, BatchLeased, BatchDone, BatchRequeued, BatchStolen, BatchTakenOver}),
	"reason": set([]Denial{DeniedIdentity, DeniedCertificate, DeniedRole, DeniedOwner, DeniedRoot, DeniedRate, DeniedRoute}),
	"action": set([]HSMAction{HSMArchive, HSMRestore, HSMRemove}),
	"result": set([]string{hsmDone, hsmFailed}),
	"use":    set([]CertificateUse{CertServer, CertAgent, CertAuthority}),
	"work":   set([]string{"lead", "batch"}),
	"code":   set(grpcCodes()),
}

var (
	taskStates    = enum(datamovev1.TaskState_name, "TASK_STATE_")
	replicaStates = enum(datamovev1.ReplicaState_name, "REPLICA_STATE_")
	agentStates   = enum(datamovev1.AgentState_name, "AGENT_STATE_")
)

func set[S ~string](lists ...[]S) words {
	w := words{}
	for _, list := range lists {
		for _, s := range list {
			w[string(s)] = true
		}
	}
	return w
}

// enum lists the words of a protobuf enumeration, but for "unspecified".
func enum(names map[int32]string, prefix string) []string {
	var list []string
	for number, name := range names {
		if number != 0 {
			list = append(list, word(name, prefix))
		}
	}
	return list
}

// word is the label of a value of an enumeration.
func word(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }

func class(c datamovev1.TaskClass) string     { return word(c.String(), "TASK_CLASS_") }
func taskState(s datamovev1.TaskState) string { return word(s.String(), "TASK_STATE_") }

func kindNames() []string {
	var list []string
	for _, kind := range mover.Kinds() {
		list = append(list, strings.ToLower(mover.KindName(kind)))
	}
	return list
}

func grpcCodes() []string {
	var list []string
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		list = append(list, code.String())
	}
	return list
}

// Bounds are the names of the configuration that labels may show.
type Bounds struct {
	Tiers     []string // at most 100
	Endpoints []string // with limits, beside the tiers
	Projects  []string // at most 1,000
}

// known are the names that labels may show. They only grow, up to a number, so that
// a series does not change its name when the configuration is read again.
type known struct {
	mu        sync.RWMutex // guards all below
	tiers     words
	endpoints words
	projects  words
}

func (k *known) add(b Bounds) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tiers = grown(k.tiers, b.Tiers, maxTiers)
	k.endpoints = grown(k.endpoints, append(append([]string(nil), b.Tiers...), b.Endpoints...), 2*maxTiers)
	k.projects = grown(k.projects, b.Projects, maxProjects)
}

func grown(w words, names []string, most int) words {
	w = maps.Clone(w)
	if w == nil {
		w = words{}
	}
	for _, name := range names {
		if len(w) < most && printable(name) {
			w[name] = true
		}
	}
	return w
}

// printable says whether a name can be a label: not empty, short, and text.
func printable(name string) bool {
	return name != "" && len(name) <= maxWord && utf8.ValidString(name)
}

// bound returns value when it is a word of the label, and "other" if not. It is the
// only way into a label.
func (k *known) bound(label, value string) string {
	if k.has(label, value) {
		return value
	}
	return other
}

func (k *known) has(label, value string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	switch label {
	case "tier", "source", "target":
		return k.tiers[value]
	case "endpoint":
		return k.endpoints[value]
	case "project":
		return k.projects[value]
	case "method":
		return method(value)
	case "agent": // a Sample counts them
		return value == "" || printable(value)
	case "version", "go": // set once, by us
		return printable(value)
	}
	return closed[label][value]
}

// all lists the words of a label, "other" included.
func (k *known) all(label string) []string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	w := closed[label]
	if label == "tier" {
		w = k.tiers
	}
	return append([]string{other}, keys(w)...)
}

func keys(w words) []string {
	list := make([]string, 0, len(w))
	for name := range w {
		list = append(list, name)
	}
	return list
}

// method says whether this program knows a method, as "package.Service/Method".
func method(name string) bool {
	service, name, ok := strings.Cut(name, "/")
	if !ok || !protoreflect.FullName(service).IsValid() {
		return false
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return false
	}
	d, ok := found.(protoreflect.ServiceDescriptor)
	return ok && d.Methods().ByName(protoreflect.Name(name)) != nil
}
