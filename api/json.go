package api

import (
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const (
	jsonType    = "application/json"
	lineStream  = "application/x-ndjson"
	eventStream = "text/event-stream"
)

// lines writes a message as JSON, and a stream of them as one JSON value per line.
type lines struct{ *runtime.JSONPb }

var plainJSON = lines{&runtime.JSONPb{}} // unknown fields are errors, defaults are left out

// Marshal implements runtime.Marshaler. What is no message is an element of a
// stream: {"result": message} or {"error": status}.
func (l lines) Marshal(v any) ([]byte, error) {
	if broken, is := v.(map[string]proto.Message); is {
		if s, is := broken["error"].(*spb.Status); is {
			v = map[string]any{"error": errorOf(FromStatus(status.FromProto(s).Err()))}
		}
	}
	return l.JSONPb.Marshal(v)
}

// NewDecoder implements runtime.Marshaler. There is exactly one message in a body,
// or nothing.
func (l lines) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, err := io.ReadAll(r) // bounded by takeBody
		if err != nil || len(body) == 0 {
			return err
		}
		if m, is := v.(proto.Message); is {
			return protojson.Unmarshal(body, m)
		}
		return l.Unmarshal(body, v)
	})
}

func (lines) StreamContentType(any) string { return lineStream }

// events writes a stream as server-sent events, and everything else as lines does.
type events struct{ lines }

func (e events) Marshal(v any) ([]byte, error) {
	text, err := e.lines.Marshal(v)
	if _, whole := v.(proto.Message); whole || err != nil {
		return text, err
	}
	return append([]byte("data: "), text...), nil
}

func (events) StreamContentType(any) string { return eventStream }

func (events) Delimiter() []byte { return []byte("\n\n") }
