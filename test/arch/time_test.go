package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/level"
	"datamove.dev/test/must"
)

// clock is how often the tests of a package depend on real time.
type clock struct {
	waits    int // time.Sleep, time.After, ...; of a system package those with a literal duration
	limits   int // context.WithTimeout, context.WithDeadline
	measures int // time.Since, time.Until, and time.Now in a comparison
}

func (c clock) plus(o clock) clock {
	return clock{c.waits + o.waits, c.limits + o.limits, c.measures + o.measures}
}

func (c clock) within(may clock) bool {
	return c.waits <= may.waits && c.limits <= may.limits && c.measures <= may.measures
}

// clocks finds the dependencies on real time in the test files of one package; at are the places. Time is virtual in a function literal that synctest.Test or a
// function around it runs, and in functions, methods and types that only those refer to. Benchmarks measure, and do not count. With literal, only literal
// durations count.
func clocks(files []*ast.File, set *token.FileSet, literal bool) (c clock, at []string) {
	v := virtual{files: files}
	v.find()
	for _, f := range files {
		names := imported(f)
		v.walk(f, func(n ast.Node, in scope, bubble bool) {
			if bubble || v.within(in) || in.benchmark {
				return
			}
			found := clocked(n, names, literal)
			if found != (clock{}) {
				c, at = c.plus(found), append(at, fmt.Sprintf("%s: %s", set.Position(n.Pos()), in))
			}
		})
	}
	return c, at
}

// clocked tells whether a node waits, limits or measures by real time.
func clocked(n ast.Node, names map[string]string, literal bool) (c clock) {
	of := func(n ast.Node) string {
		if call, is := n.(*ast.CallExpr); is {
			n = call.Fun
		}
		if s, is := n.(*ast.SelectorExpr); is {
			if x, is := s.X.(*ast.Ident); is && names[x.Name] != "" {
				return names[x.Name] + "." + s.Sel.Name
			}
		}
		return ""
	}
	hasNow := func(e ast.Expr) (has bool) {
		ast.Inspect(e, func(n ast.Node) bool { has = has || of(n) == "time.Now"; return !has })
		return has
	}
	call, is := n.(*ast.CallExpr)
	if !is {
		return clock{}
	}
	switch of(call) {
	case "time.Sleep", "time.After", "time.NewTimer", "time.NewTicker", "time.Tick", "time.AfterFunc":
		if !literal || hasLiteral(call.Args[0]) {
			c.waits++
		}
	case "context.WithTimeout", "context.WithDeadline", "context.WithTimeoutCause", "context.WithDeadlineCause":
		if !literal || hasLiteral(call.Args[1]) {
			c.limits++
		}
	case "time.Since", "time.Until":
		if !literal {
			c.measures++
		}
	}
	if s, is := call.Fun.(*ast.SelectorExpr); is && !literal && slices.Contains([]string{"Before", "After", "Compare", "Sub"}, s.Sel.Name) {
		if hasNow(s.X) || slices.ContainsFunc(call.Args, hasNow) {
			c.measures++
		}
	}
	return c
}

// hasLiteral reports whether a duration is written down where it is used.
func hasLiteral(e ast.Expr) (has bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is {
			has = has || slices.Contains([]string{"Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}, s.Sel.Name)
		}
		return !has
	})
	return has
}

// virtual finds the functions and types of a package for which time is virtual.
type virtual struct {
	files  []*ast.File
	runs   map[string]bool // functions that run their function parameters in a bubble
	inside map[string]bool // functions, ".methods" and types that nothing but a bubble refers to
}

// scope is a declaration that a node is in.
type scope struct {
	name, method, of string // a function or type; or a method and the type it is of
	benchmark        bool   // a benchmark, or what helps one
}

func (s scope) String() string { return s.name + s.of + s.method }

func scopeOf(d *ast.FuncDecl) scope {
	s := scope{name: d.Name.Name, benchmark: strings.HasPrefix(d.Name.Name, "Benchmark")}
	for _, p := range d.Type.Params.List {
		if star, is := p.Type.(*ast.StarExpr); is {
			if sel, is := star.X.(*ast.SelectorExpr); is && sel.Sel.Name == "B" {
				s.benchmark = true
			}
		}
	}
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return s
	}
	s.name, s.method = "", "."+d.Name.Name
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && s.of == "" {
			s.of = id.Name
		}
		return true
	})
	return s
}

func (v *virtual) within(s scope) bool {
	return v.inside[s.name] || v.inside[s.method] || v.inside[s.of]
}

// runner reports whether a call runs its function arguments in a bubble.
func (v *virtual) runner(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return v.runs[fun.Name]
	case *ast.SelectorExpr:
		x, is := fun.X.(*ast.Ident)
		return is && (x.Name == "synctest" && fun.Sel.Name == "Test" || x.Name == "rig" && fun.Sel.Name == "Bubble") // of test/cluster/rig
	}
	return false
}

// walk visits the nodes of a file with the declaration that they are in, and whether they are in a bubble or handed to one.
func (v *virtual) walk(f *ast.File, visit func(n ast.Node, in scope, bubble bool)) {
	var down func(root ast.Node, in scope, bubble bool)
	down = func(root ast.Node, in scope, bubble bool) {
		ast.Inspect(root, func(n ast.Node) bool {
			if n == nil {
				return false
			}
			visit(n, in, bubble)
			call, is := n.(*ast.CallExpr)
			if !is || !v.runner(call) {
				return true
			}
			down(call.Fun, in, bubble)
			for _, arg := range call.Args {
				_, literal := arg.(*ast.FuncLit)
				_, name := arg.(*ast.Ident)
				down(arg, in, bubble || literal || name)
			}
			return false
		})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				down(d.Body, scopeOf(d), false)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if typ, is := spec.(*ast.TypeSpec); is {
					down(typ.Type, scope{name: typ.Name.Name}, false)
				} else {
					down(spec, scope{}, false)
				}
			}
		}
	}
}

// find fills what runs functions in a bubble, and then what is inside of one: first all that the package declares, without what is referred to from elsewhere,
// until no more goes. So what refers to each other is inside together.
func (v *virtual) find() {
	v.runs, v.inside = map[string]bool{}, map[string]bool{}
	for n := -1; n < len(v.runs); {
		n = len(v.runs)
		_, outside, inFunc := v.uses()
		v.each(func(in scope, d *ast.FuncDecl) {
			if d == nil || in.method != "" {
				return
			}
			for _, field := range d.Type.Params.List {
				for _, p := range field.Names {
					use := [2]string{in.name, p.Name}
					if _, is := field.Type.(*ast.FuncType); is && inFunc[use] && !outside[use] {
						v.runs[in.name] = true
					}
				}
			}
		})
	}
	v.each(func(in scope, d *ast.FuncDecl) {
		if name := in.name + in.method; !ast.IsExported(strings.TrimPrefix(name, ".")) {
			v.inside[name] = true
		}
	})
	for n := -1; n != len(v.inside); {
		n = len(v.inside)
		used, outside, _ := v.uses()
		for name := range v.inside {
			if !used[name] || outside[[2]string{"", name}] {
				delete(v.inside, name)
			}
		}
	}
}

// each calls do for each function and type, for these without a declaration of a function.
func (v *virtual) each(do func(in scope, d *ast.FuncDecl)) {
	for _, f := range v.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if typ, is := spec.(*ast.TypeSpec); is {
						do(scope{name: typ.Name.Name}, nil)
					}
				}
			case *ast.FuncDecl:
				do(scopeOf(d), d)
			}
		}
	}
}

// uses are the names that something refers to, methods as ".method": whether there is any use, one outside of bubbles by function and by "" for all of them,
// and those in a function at all.
func (v *virtual) uses() (used map[string]bool, outside, inFunc map[[2]string]bool) {
	used, outside, inFunc = map[string]bool{}, map[[2]string]bool{}, map[[2]string]bool{}
	for _, f := range v.files {
		selected := map[*ast.Ident]bool{}
		v.walk(f, func(n ast.Node, in scope, bubble bool) {
			if s, is := n.(*ast.SelectorExpr); is {
				selected[s.Sel] = true
			}
			id, is := n.(*ast.Ident)
			if !is {
				return
			}
			name := id.Name
			if selected[id] {
				name = "." + name
			}
			if name == in.name || name == in.method || name == in.of { // it refers to itself
				return
			}
			used[name], inFunc[[2]string{in.name, name}] = true, true
			if !bubble && !v.within(in) {
				outside[[2]string{in.name, name}], outside[[2]string{"", name}] = true, true
			}
		})
	}
	return used, outside, inFunc
}

// TestTime: tests do not depend on real time, but for what realTime allows.
func TestTime(t *testing.T) {
	files, set := testFiles(t)
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		if level.Of(dir) == level.Soak {
			continue
		}
		is, at := clocks(files[dir], set, level.Of(dir) == level.System)
		onlyFalls(t, "realTime", dir, is, realTime[dir], is.within(realTime[dir]), at, "testing/synctest, or wait for an event")
	}
	known(t, "realTime", realTime, files)
}

// TestClocks: each way to wait, limit and measure is seen, and none in a bubble.
func TestClocks(t *testing.T) {
	for body, want := range map[string]clock{
		`func TestX(t *testing.T) { time.Sleep(d); <-time.After(d); time.NewTimer(d); time.NewTicker(d); time.Tick(d); time.AfterFunc(d, f) }`:                           {waits: 6},
		`func TestX(t *testing.T) { context.WithTimeout(c, d); context.WithDeadlineCause(c, d, e) }`:                                                                     {limits: 2},
		`func TestX(t *testing.T) { long := time.Since(x); if time.Now().After(y) || y.Before(time.Now().Add(d)) { time.Until(x) } }`:                                    {measures: 4},
		`func TestX(t *testing.T) { x := time.Now(); x.Add(d); f(time.Now()) }`:                                                                                          {},
		`func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(d); time.Since(x) }) }`:                                                             {},
		`func TestX(t *testing.T) { time.Sleep(d); synctest.Test(t, func(t *testing.T) {}); time.Sleep(d) }`:                                                             {waits: 2},
		`func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { help() }) }; func help() { more() }; func more() { time.Sleep(d) }`:                            {},
		`func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { help() }); help() }; func help() { time.Sleep(d) }`:                                            {waits: 1},
		`func TestX(t *testing.T) { synctest.Test(t, inner) }; func inner(t *testing.T) { time.Sleep(d) }`:                                                               {},
		`func TestX(t *testing.T) { bubble(t, func() { time.Sleep(d) }) }; func bubble(t *testing.T, do func()) { synctest.Test(t, func(t *testing.T) { do() }) }`:       {},
		`func TestX(t *testing.T) { bubble(t, func() { time.Sleep(d) }) }; func bubble(t *testing.T, do func()) { do(); synctest.Test(t, func(t *testing.T) { do() }) }`: {waits: 1},
		`func BenchmarkX(b *testing.B) { time.Since(x) }`:                                                                                                                {},
		`func help() { time.Sleep(d) }`: {waits: 1},
	} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, "x_test.go", `package x
			import ("context"; "testing"; "testing/synctest"; "time")
			`+body, parser.SkipObjectResolution)
		must.Do(t, err)
		if got, at := clocks([]*ast.File{f}, set, false); got != want {
			t.Errorf("%s: %+v %q, want %+v", body, got, at, want)
		}
	}
	for body, want := range map[string]clock{
		`time.Sleep(d); context.WithTimeout(c, d); time.Since(x)`:                           {},
		`time.Sleep(3*time.Second); context.WithTimeout(c, time.Minute); <-time.After(2*d)`: {waits: 1, limits: 1},
	} {
		set := token.NewFileSet()
		f := must.Get(parser.ParseFile(set, "x_test.go", `package x; import ("context"; "time"); func _() { `+body+` }`, parser.SkipObjectResolution))(t)
		if got, at := clocks([]*ast.File{f}, set, true); got != want {
			t.Errorf("%s: %+v %q, want %+v", body, got, at, want)
		}
	}
}
