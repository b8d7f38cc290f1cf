package api

import (
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// strictQueries makes the gateway's library, which keeps its parser in a global
// variable, refuse what it would leave out.
var strictQueries = sync.OnceFunc(func() { runtime.SetQueryParameterParser(strictQuery{})(nil) })

// strictQuery reads a query into a message, and knows every name in it: a
// misspelt filter would otherwise list everything.
type strictQuery struct{ runtime.DefaultQueryParser }

// Parse implements runtime.QueryParameterParser.
func (q strictQuery) Parse(m proto.Message, values url.Values, inPath *utilities.DoubleArray) error {
	for key := range values {
		name, _, _ := strings.Cut(key, "[") // of a map
		path := strings.Split(name, ".")
		if !isField(m.ProtoReflect().Descriptor(), path) || inPath.HasCommonPrefix(path) {
			return fmt.Errorf("there is no parameter %q here", key)
		}
	}
	return q.DefaultQueryParser.Parse(m, values, inPath)
}

// isField reports whether a path leads to a field of a message.
func isField(m protoreflect.MessageDescriptor, path []string) bool {
	for _, name := range path {
		if m == nil {
			return false
		}
		field := m.Fields().ByJSONName(name)
		if field == nil {
			field = m.Fields().ByTextName(name)
		}
		if field == nil {
			return false
		}
		m = field.Message()
	}
	return true
}
