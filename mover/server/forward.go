package server

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
)

// Passing are the rules of a server that forwards: persons on a socket of this node may
// ask, and the coordinator decides. Methods that are not for persons do not pass.
type Passing struct{}

// MayCall implements Rules.
func (Passing) MayCall(c authz.Caller, method string) authz.Decision {
	switch {
	case !public(method) || authz.OfMethod(method).Action == "":
		return authz.Decision{Rule: "default", Reason: mover.Printable(method) + " is nothing that people ask: what has no rule is denied"}
	case c.Via != authz.Local:
		return authz.Decision{Rule: "default", Reason: c.String() + " may not ask through this node: use its socket"}
	}
	return authz.Decision{Allowed: true, Rule: "forward", Reason: "the coordinator decides"}
}

// MayActFor implements Rules: the coordinator decides.
func (Passing) MayActFor(authz.Caller, uint32) authz.Decision {
	return authz.Decision{Rule: "default", Reason: "the coordinator decides"}
}

// Person implements Rules: no caller comes here with a certificate.
func (Passing) Person(string) (string, bool) { return "", false }

// Roles implements Rules: they are the coordinator's.
func (Passing) Roles(authz.Caller) []string { return nil }

// frame is a message that is passed on as it is.
type frame struct{ data mem.BufferSlice }

// frames is a codec for frames, and for messages of our own.
type frames struct{}

var messages = encoding.GetCodecV2(proto.Name)

// Name implements encoding.CodecV2.
func (frames) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (frames) Marshal(v any) (mem.BufferSlice, error) {
	if f, is := v.(*frame); is {
		return f.data, nil // with our reference: a frame is sent once
	}
	return messages.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	if f, is := v.(*frame); is {
		data.Ref() // the caller drops its own
		f.data = data
		return nil
	}
	return messages.Unmarshal(data, v)
}

// forward passes a call on, for its caller.
func (d *Server) forward(in grpc.ServerStream, method string) error {
	ctx, cancel := context.WithCancelCause(in.Context())
	defer cancel(nil)
	behalf, err := onBehalf(ctx)
	if err != nil {
		return err
	}
	both := &grpc.StreamDesc{StreamName: method, ServerStreams: true, ClientStreams: true}
	out, err := d.o.Forward.NewStream(metadata.NewOutgoingContext(ctx, behalf), both, method, grpc.ForceCodecV2(frames{}))
	if err != nil {
		return err
	}
	go func() { // ends when the call does: gRPC ends what waits for a caller's next message
		if err := upstream(in, out); err != nil {
			cancel(err)
		}
	}()
	if err = downstream(in, out); err != nil && in.Context().Err() == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// onBehalf is the metadata of a call that is passed on: the caller, the person that it is for, and the trace. The
// caller's own metadata stays behind.
func onBehalf(ctx context.Context) (metadata.MD, error) {
	c := authz.From(ctx)
	s := said{Name: c.Name, UID: c.UID, Groups: c.Groups}
	if v := requestOf(ctx); v != nil {
		s.For = v.person
	}
	who, err := s.encode()
	if err != nil {
		return nil, err
	}
	out := metadata.Pairs(behalfKey, who)
	if in, ok := metadata.FromIncomingContext(ctx); ok {
		for _, key := range []string{"traceparent", "tracestate"} {
			out.Append(key, in.Get(key)...)
		}
	}
	return out, nil
}

// upstream passes on what the caller sends.
func upstream(in grpc.ServerStream, out grpc.ClientStream) error {
	for {
		f := &frame{}
		err := in.RecvMsg(f)
		if errors.Is(err, io.EOF) {
			return out.CloseSend()
		}
		if err != nil {
			return err
		}
		if out.SendMsg(f) != nil {
			return nil // downstream hears why
		}
	}
}

// downstream passes on what is answered, and returns how the call ended.
func downstream(in grpc.ServerStream, out grpc.ClientStream) error {
	defer func() { in.SetTrailer(plain(out.Trailer())) }()
	for first := true; ; first = false {
		f := &frame{}
		err := out.RecvMsg(f)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			if err := passHeader(in, out); err != nil {
				return err
			}
		}
		if err := in.SendMsg(f); err != nil {
			return err
		}
	}
}

func passHeader(in grpc.ServerStream, out grpc.ClientStream) error {
	md, err := out.Header()
	if err != nil {
		return err
	}
	return in.SendHeader(plain(md))
}

// plain leaves out what gRPC itself says in metadata.
func plain(md metadata.MD) metadata.MD {
	kept := metadata.MD{}
	for key, values := range md {
		if key != "content-type" && !strings.HasPrefix(key, "grpc-") && !strings.HasPrefix(key, ":") {
			kept[key] = values
		}
	}
	return kept
}
