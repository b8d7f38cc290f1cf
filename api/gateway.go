package api

import (
	"context"
	_ "embed" // openapi.json
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// GatewayOptions says which callers a gateway serves. The zero value serves browsers and
// programs on this machine.
type GatewayOptions struct {
	// Host reports whether we go by a name, given without its port. Others are
	// refused, so that a foreign web page can not have its own name lead to us. nil
	// means localhost and loopback addresses.
	Host func(name string) bool

	// Metadata is what the service is told about the caller of a request; nil tells it
	// nothing. No header of the request becomes metadata by itself, but for
	// authorization and the context of a trace.
	Metadata func(*http.Request) metadata.MD
}

// Gateway is the JSON side of the service that conn leads to: the routes of
// http.yaml, and their description at /openapi.json.
//
// Messages are JSON as protobuf has it: names in lowerCamel, 64-bit numbers as
// strings, bytes in base64, nothing that has its default. An answer that is no
// success is a datamove.v1.Error. A stream is one {"result": ...} per line, or
// text/event-stream for clients that accept that, and an {"error": ...} last if it breaks.
//
// A POST is application/json, which no form of a foreign page can send; there are
// no CORS headers. Bodies have at most 1 MiB.
func Gateway(ctx context.Context, conn grpc.ClientConnInterface, o GatewayOptions) (http.Handler, error) {
	strictQueries()
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, plainJSON),
		runtime.WithMarshalerOption(eventStream, events{plainJSON}),
		runtime.WithIncomingHeaderMatcher(passHeader),
		runtime.WithOutgoingHeaderMatcher(passNone),
		runtime.WithOutgoingTrailerMatcher(passNone),
		runtime.WithMetadata(func(_ context.Context, r *http.Request) metadata.MD {
			if o.Metadata == nil {
				return nil
			}
			return o.Metadata(r)
		}),
		runtime.WithErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
			fail(w, err)
		}),
		runtime.WithRoutingErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
			noRoute(w, r, code)
		}),
		runtime.WithStreamErrorHandler(streamError),
		runtime.WithWriteContentLength(),
	)
	if err := register(ctx, mux, conn); err != nil {
		return nil, err
	}
	return &guard{next: mux, host: o.Host, foreign: http.NewCrossOriginProtection()}, nil
}

// register mounts the public services.
func register(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
	for _, err := range []error{
		datamovev1.RegisterTaskServiceHandlerClient(ctx, mux, datamovev1.NewTaskServiceClient(conn)),
		datamovev1.RegisterDatasetServiceHandlerClient(ctx, mux, datamovev1.NewDatasetServiceClient(conn)),
		datamovev1.RegisterTierServiceHandlerClient(ctx, mux, datamovev1.NewTierServiceClient(conn)),
		datamovev1.RegisterAgentServiceHandlerClient(ctx, mux, datamovev1.NewAgentServiceClient(conn)),
		datamovev1.RegisterPolicyServiceHandlerClient(ctx, mux, datamovev1.NewPolicyServiceClient(conn)),
		datamovev1.RegisterCatalogServiceHandlerClient(ctx, mux, datamovev1.NewCatalogServiceClient(conn)),
		datamovev1.RegisterBurstServiceHandlerClient(ctx, mux, datamovev1.NewBurstServiceClient(conn)),
		datamovev1.RegisterUsageServiceHandlerClient(ctx, mux, datamovev1.NewUsageServiceClient(conn)),
		datamovev1.RegisterAdminServiceHandlerClient(ctx, mux, datamovev1.NewAdminServiceClient(conn)),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// passHeader lets through the headers that say nothing about the caller. The gateway's
// library adds authorization, which a service has to check anyhow.
func passHeader(name string) (string, bool) {
	switch name {
	case "Traceparent", "Tracestate":
		return name, true
	}
	return "", false
}

func passNone(string) (string, bool) { return "", false }

//go:embed openapi.json
var openAPI []byte

// streamError is told when a stream ends in an error. One that has not begun is
// answered as any other request; what the library writes after that is dropped.
func streamError(ctx context.Context, err error) *status.Status {
	if w, ok := ctx.Value(replyKey{}).(*reply); ok && !w.begun {
		fail(w, err)
		w.over = true
	}
	return status.Convert(ToStatus(FromStatus(err)))
}
