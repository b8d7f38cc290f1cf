package remedy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

var update = flag.Bool("update", false, "write testdata/remedies.txt")

// TestRemedies walks every kind through every operation and backend, and through every cause. What it finds is in a file for people.
func TestRemedies(t *testing.T) {
	var b strings.Builder
	b.WriteString("What stands behind \"try:\", by kind of error; then by backend, with the operations in brackets where they differ, or by cause.\n" +
		"Made by go test ./mover/remedy -update\n")
	for _, kind := range append([]error{context.Canceled, context.DeadlineExceeded}, mover.Kinds()...) {
		name := mover.KindName(kind)
		if name == "OTHER" {
			name = "CONTEXT"
		}
		fmt.Fprintf(&b, "\n%s: %v\n", name, kind)
		for _, backend := range append([]Backend{""}, Backends...) {
			describe(&b, kind, backend)
		}
		for _, cause := range causesOf(kind) {
			fmt.Fprintf(&b, "  %-24s %s\n", cause, said(For(Case{Kind: kind, Cause: cause, Backend: backendOfCause(cause)})))
		}
	}
	b.WriteString("\nany kind, by cause\n")
	for _, r := range table {
		if r.kind == nil {
			fmt.Fprintf(&b, "  %-24s %s\n", r.cause, r.try)
		}
	}
	path := filepath.Join("testdata", "remedies.txt")
	if *update {
		must.Do(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	must.Do(t, err)
	if b.String() != string(want) {
		t.Errorf("the remedies are not those of %s, which go test -update writes:\n%s", path, b.String())
	}
	if lines := strings.Count(b.String(), "\n"); lines > 150 {
		t.Errorf("%d lines are more than can be read in five minutes", lines)
	}
}

// describe adds the remedies of one backend: what all operations have in common, and what some do not.
func describe(b *strings.Builder, kind error, backend Backend) {
	common := For(Case{Kind: kind, Backend: backend})
	if backend == "" || common != For(Case{Kind: kind}) {
		fmt.Fprintf(b, "  %-24s %s\n", or(string(backend), "any"), said(common))
	}
	var texts []string
	whose := map[string][]string{}
	for _, op := range Operations {
		text := For(Case{Kind: kind, Backend: backend, Operation: op})
		if text == common || backend != "" && text == For(Case{Kind: kind, Operation: op}) {
			continue
		}
		if whose[text] == nil {
			texts = append(texts, text)
		}
		whose[text] = append(whose[text], string(op))
	}
	for _, text := range texts {
		fmt.Fprintf(b, "  %-24s %s\n", or(string(backend), "any")+" ("+strings.Join(whose[text], ", ")+")", said(text))
	}
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func said(try string) string { return or(try, "-") }

// causesOf are those that have a remedy of their own for a kind.
func causesOf(kind error) (all []string) {
	for _, r := range table {
		if r.cause != "" && r.kind != nil && errors.Is(kind, r.kind) {
			all = append(all, r.cause)
		}
	}
	return all
}

func backendOfCause(cause string) Backend {
	for _, r := range table {
		if r.cause == cause {
			return r.backend
		}
	}
	return ""
}

// TestSentences: a remedy has no sentence of more than 25 words, and does not promise what other persons do.
func TestSentences(t *testing.T) {
	for _, r := range table {
		for sentence := range strings.SplitSeq(r.try, ";") {
			if n := len(strings.Fields(sentence)); n > 25 {
				t.Errorf("%d words: %s", n, sentence)
			}
		}
		if strings.Contains(r.try, "nobody") || strings.Contains(r.try, "somebody") {
			t.Errorf("no component is the subject: %s", r.try)
		}
	}
}

// TestEachRowCounts: no row is hidden by another one of the same case.
func TestEachRowCounts(t *testing.T) {
	for i, r := range table {
		for _, other := range table[:i] {
			if errors.Is(r.kind, other.kind) && r.operation == other.operation && r.backend == other.backend && r.cause == other.cause {
				t.Errorf("%v %s %s %s is twice in the table", r.kind, r.operation, r.backend, r.cause)
			}
		}
	}
}

func TestOf(t *testing.T) {
	at := func(op, place string, err error) error { return &mover.Error{Op: op, Location: place, Err: err} }
	refused := at("publish", "s3://b", coded{mover.ErrPermission, "AccessDenied"})
	for _, row := range []struct {
		err, kind error
		want      Case
	}{
		{at("walk", "/x", fs.ErrPermission), mover.ErrPermission, Case{nil, Read, Files, ""}},
		{at("mkdir", "/x", fmt.Errorf("%w: %w", syscall.EROFS, mover.ErrPermission)), mover.ErrPermission, Case{nil, Write, Files, "EROFS"}},
		{fmt.Errorf("it: %w", refused), mover.ErrPermission, Case{nil, Write, S3, "AccessDenied"}},
		{errors.Join(at("open", "/x", fs.ErrNotExist), refused), mover.ErrPermission, Case{nil, Write, S3, "AccessDenied"}},
		{errors.New("?"), mover.ErrFull, Case{}},
	} {
		row.want.Kind = row.kind
		if got := Of(row.err, row.kind); got != row.want {
			t.Errorf("%v: %+v, want %+v", row.err, got, row.want)
		}
	}
}

type coded struct {
	error
	code string
}

func (c coded) Cause() string { return c.code }
func (c coded) Unwrap() error { return c.error }

// TestOperations: the table knows each word that an error of a backend begins with.
func TestOperations(t *testing.T) {
	for _, dir := range []string{"posix", "s3"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		must.Do(t, err)
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			must.Do(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				if word := operationIn(n); word != "" && words[word] == "" {
					t.Errorf("%s: %q is no operation that the table knows", file, word)
				}
				return true
			})
		}
	}
}

// operationIn is the word of a call p.fail("word", …) or p.wrap("word", …); "" is none.
func operationIn(n ast.Node) string {
	call, is := n.(*ast.CallExpr)
	if !is || len(call.Args) == 0 {
		return ""
	}
	method, is := call.Fun.(*ast.SelectorExpr)
	if !is || method.Sel.Name != "fail" && method.Sel.Name != "wrap" {
		return ""
	}
	literal, is := call.Args[0].(*ast.BasicLit)
	if !is {
		return ""
	}
	word, _ := strconv.Unquote(literal.Value)
	return word
}
