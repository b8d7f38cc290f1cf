package document

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// Comments are what the code of a package says of its types, of their fields and of constants.
type Comments struct {
	Types     map[string]string            // above a type, by its name
	Fields    map[string]map[string]string // behind a field or above it, by type and field
	Constants map[string][]Constant        // of a type, in their order
	Groups    map[string]string            // above the constants of a type
}

// Constant is one that has a text as its value.
type Constant struct{ Name, Value, Comment string }

// ReadComments reads the files of a package, but for its tests.
func ReadComments(dir string) (*Comments, error) {
	c := &Comments{Types: map[string]string{}, Fields: map[string]map[string]string{}, Constants: map[string][]Constant{}, Groups: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if d, is := d.(*ast.GenDecl); is {
				c.declaration(d)
			}
		}
	}
	return c, nil
}

func (c *Comments) declaration(d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			c.Types[s.Name.Name] = sentence(s.Doc, d.Doc)
			if fields, is := s.Type.(*ast.StructType); is {
				c.fields(s.Name.Name, fields)
			}
		case *ast.ValueSpec:
			of, typed := s.Type.(*ast.Ident)
			if d.Tok != token.CONST || !typed || len(s.Values) != 1 {
				continue
			}
			if value, is := s.Values[0].(*ast.BasicLit); is && value.Kind == token.STRING {
				text, _ := strconv.Unquote(value.Value) // it compiles
				c.Constants[of.Name] = append(c.Constants[of.Name], Constant{s.Names[0].Name, text, sentence(s.Comment, s.Doc)})
				c.Groups[of.Name] = sentence(d.Doc)
			}
		}
	}
}

func (c *Comments) fields(of string, s *ast.StructType) {
	c.Fields[of] = map[string]string{}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			c.Fields[of][name.Name] = sentence(f.Comment, f.Doc)
		}
	}
}

// sentence is the text of the first comment that there is, in one line.
func sentence(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if text := strings.Join(strings.Fields(g.Text()), " "); text != "" {
			return text
		}
	}
	return ""
}
