package policy

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"datamove.dev/mover"
	"datamove.dev/tiering/dataset"
)

// costMost is what one expression may cost for one file, in the units of CEL: about one for each operation, and one for ten letters that
// are compared. A comparison of a few fields costs ten.
const costMost = 20_000

// textMostCEL bounds an expression, nestMost how deep it goes.
const (
	textMostCEL = 4096
	nestMost    = 32
)

// lettersMost is how long the longest name of a file can be: the path of a key in S3, or PATH_MAX.
const lettersMost = 4096

// variables are what expressions can use, beside the vars of their policy.
var variables = map[string]variable{
	"name": {cel.StringType, "last segment of the name"}, "path": {cel.StringType, "name below the root of its tier"},
	"dir": {cel.StringType, "path without the last segment"}, "ext": {cel.StringType, "end of the name from its last dot on"},
	"kind": {cel.StringType, "file, dir, symlink, fifo, socket, chardev or blockdev"},
	"size": {cel.IntType, "bytes of the content"}, "stored": {cel.IntType, "bytes that are allocated"}, "mode": {cel.IntType, "permissions"},
	"uid": {cel.IntType, "number of the owner"}, "gid": {cel.IntType, "number of the group"}, "links": {cel.IntType, "number of names"},
	"owner": {cel.StringType, "name of the owner"}, "group": {cel.StringType, "name of the group"}, "project": {cel.StringType, "project with the root"},
	"tier": {cel.StringType, "tier that the file is on"}, "checkpoint": {cel.StringType, "state of the checkpoint that it belongs to; empty without one"},
	"idle_s": {cel.DoubleType, "seconds since it was of use last"}, "idle_days": {cel.DoubleType, "days since it was of use last"},
	"now": {cel.TimestampType, "time of the decision"}, "mtime": {cel.TimestampType, "last change of the content"},
	"ctime": {cel.TimestampType, "last change of the inode"}, "atime": {cel.TimestampType, "last read"}, "seen": {cel.TimestampType, "when the catalog knew it first"},
	"leased": {cel.BoolType, "whether a lease keeps it"}, "pinned": {cel.BoolType, "whether a pin keeps it"},
	"replicas": {cel.IntType, "verified replicas on other tiers"}, "class": {cel.ListType(cel.StringType), "classes that it is in"},
}

// variable is the type of one, and what it means.
type variable struct {
	is    *cel.Type
	means string
}

// environment is what expressions of one policy are checked against.
type environment struct {
	env  *cel.Env
	vars map[string]ref.Val
}

func newEnvironment(vars map[string]Values) (*environment, error) {
	e := &environment{vars: map[string]ref.Val{}}
	options := []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(textMostCEL), cel.ParserRecursionLimit(nestMost),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateDurationLiterals()),
	}
	for name, v := range variables {
		options = append(options, cel.Variable(name, v.is))
	}
	for name, values := range vars {
		options = append(options, cel.Variable(name, cel.ListType(cel.StringType)))
		e.vars[name] = types.NewStringList(types.DefaultTypeAdapter, values)
	}
	var err error
	e.env, err = cel.NewEnv(options...)
	return e, err
}

// expression is one that can be asked.
type expression struct {
	program cel.Program
	text    string
}

// boolean compiles one that is true or false; nil when it is wrong.
func (e *environment) boolean(c *compiler, w *Where, field string) *expression {
	return e.compile(c, w, field, "true or false", func(t *cel.Type) bool { return t.IsExactType(cel.BoolType) })
}

// number compiles one that is a number.
func (e *environment) number(c *compiler, w *Where, field string) *expression {
	return e.compile(c, w, field, "a number", func(t *cel.Type) bool { return t.IsExactType(cel.DoubleType) || t.IsExactType(cel.IntType) })
}

func (e *environment) compile(c *compiler, w *Where, field, want string, is func(*cel.Type) bool) *expression {
	wrong := func(line, column int, format string, args ...any) *expression {
		at := w.At
		if line > 1 {
			at.Line, at.Column = at.Line+line-1, column+1
		} else if line == 1 {
			at.Column += column
		}
		c.add(at, field, format, args...)
		return nil
	}
	ast, issues := e.env.Compile(w.Text)
	if issues.Err() == nil {
		for _, r := range ast.NativeRep().ReferenceMap() {
			c.byReads = c.byReads || r.Name == "atime" || r.Name == "idle_s" || r.Name == "idle_days"
		}
	}
	if err := issues.Err(); err != nil {
		for _, i := range issues.Errors() {
			wrong(i.Location.Line(), i.Location.Column(), "%s", strings.TrimSpace(i.Message))
		}
		return nil
	}
	if !is(ast.OutputType()) {
		return wrong(0, 0, "is %s; want %s", ast.OutputType(), want)
	}
	estimate, err := e.env.EstimateCost(ast, e)
	if err != nil {
		return wrong(0, 0, "what it costs can not be told: %v", err)
	}
	if estimate.Max > costMost {
		return wrong(0, 0, "may cost up to %s for one file, where %d is the most; say it with fewer lists in lists, and compare shorter texts", costText(estimate.Max), costMost)
	}
	program, err := e.env.Program(ast, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return wrong(0, 0, "%v", err)
	}
	return &expression{program, w.Text}
}

func costText(n uint64) string {
	if n > math.MaxInt64 {
		return "more than can be counted"
	}
	return fmt.Sprint(n)
}

// EstimateSize implements cost.Estimator: how long texts and lists can be.
func (e *environment) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	p := n.Path()
	if len(p) == 0 {
		return nil
	}
	most := uint64(lettersMost)
	switch list, isVar := e.vars[p[0]].(interface{ Size() ref.Val }); {
	case len(p) > 1:
		most = 256 // an item of a list
	case isVar:
		most = uint64(list.Size().(types.Int))
	case p[0] == "class":
		most = classesMost
	case slices.Contains([]string{"name", "ext"}, p[0]):
		most = 1024
	case slices.Contains([]string{"kind", "owner", "group", "project", "tier", "checkpoint"}, p[0]):
		most = 256
	}
	return &cost.SizeEstimate{Max: most}
}

// EstimateCallCost implements cost.Estimator: as CEL has it.
func (e *environment) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// truth asks it about the file that a judge has.
func (x *expression) truth(j *Judge) (bool, error) {
	v, _, err := x.program.Eval(j)
	if err != nil {
		return false, fmt.Errorf("%q: %w", x.text, err)
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("%q: is %s", x.text, v.Type().TypeName())
	}
	return bool(b), nil
}

// weight asks it for a number.
func (x *expression) weight(j *Judge) (float64, error) {
	v, _, err := x.program.Eval(j)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", x.text, err)
	}
	switch n := v.(type) {
	case types.Double:
		if math.IsNaN(float64(n)) {
			return 0, fmt.Errorf("%q: is no number", x.text)
		}
		return float64(n), nil
	case types.Int:
		return float64(n), nil
	}
	return 0, fmt.Errorf("%q: is %s", x.text, v.Type().TypeName())
}

// Parent implements cel.Activation.
func (j *Judge) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation: the value of a variable, for the file that j has.
func (j *Judge) ResolveName(name string) (any, bool) {
	f := j.file
	switch name {
	case "name":
		return text(f.Base), true
	case "path":
		return text(f.Name()), true
	case "dir":
		return text(f.Dir), true
	case "ext":
		return text(path.Ext(f.Base)), true
	case "kind":
		return types.String(f.Kind.String()), true
	case "size":
		return types.Int(f.Size), true
	case "stored":
		return types.Int(f.Stored), true
	case "mode":
		return types.Int(f.Mode), true
	case "uid":
		return types.Int(f.UID), true
	case "gid":
		return types.Int(f.GID), true
	case "links":
		return types.Int(f.Links), true
	case "owner":
		return types.String(j.owner()), true
	case "group":
		return types.String(j.group()), true
	case "project":
		return types.String(j.at.Project), true
	case "tier":
		return types.String(j.at.Tier), true
	case "checkpoint":
		return types.String(j.at.Checkpoint), true
	case "idle_s":
		return types.Double(float64(max(0, j.now-j.used)) / 1e9), true
	case "idle_days":
		return types.Double(float64(max(0, j.now-j.used)) / float64(day)), true
	case "now":
		return moment(j.now), true
	case "mtime":
		return known(f, name, mover.FactMtime, f.Mtime), true
	case "ctime":
		return known(f, name, mover.FactCtime, f.Ctime), true
	case "atime":
		return known(f, name, mover.FactAtime, j.at.read(f.Atime)), true
	case "seen":
		return types.Timestamp{Time: time.Unix(f.Seen, 0)}, true
	case "leased":
		return types.Bool(j.at.Leased), true
	case "pinned":
		return types.Bool(j.at.Pinned), true
	case "replicas":
		return types.Int(j.at.Replicas), true
	case "class":
		return types.NewStringList(types.DefaultTypeAdapter, j.classNames()), true
	}
	v, ok := j.program.env.vars[name]
	return v, ok
}

// text is a name as CEL can have it: UTF-8.
func text(s string) types.String {
	if utf8.ValidString(s) {
		return types.String(s)
	}
	return types.String(strings.ToValidUTF8(s, "\uFFFD"))
}

// known is a time of a file, and an error where that is not known: 1970 would be long ago.
func known(f *dataset.File, name string, fact mover.Facts, ns int64) ref.Val {
	if !f.Known.Has(fact) {
		return types.NewErr("its %s is not known", name)
	}
	return moment(ns)
}

func moment(ns int64) types.Timestamp { return types.Timestamp{Time: time.Unix(0, ns)} }
