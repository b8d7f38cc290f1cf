package api

import (
	"context"
	"errors"
	"iter"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// listing is a request for one page.
type listing interface {
	proto.Message
	GetPageToken() string
}

// page is the answer.
type page interface{ GetNextPageToken() string }

// Tasks iterates over tasks, as ListTasks gives them, page by page. It ends after
// an error.
func (c *Client) Tasks(ctx context.Context, req *datamovev1.ListTasksRequest) iter.Seq2[*datamovev1.Task, error] {
	return pages(ctx, c.ListTasks, req, (*datamovev1.ListTasksResponse).GetTasks)
}

// Datasets iterates over datasets, as Tasks does over tasks.
func (c *Client) Datasets(ctx context.Context, req *datamovev1.ListDatasetsRequest) iter.Seq2[*datamovev1.Dataset, error] {
	return pages(ctx, c.ListDatasets, req, (*datamovev1.ListDatasetsResponse).GetDatasets)
}

// Replicas iterates over replicas, as Tasks does over tasks.
func (c *Client) Replicas(ctx context.Context, req *datamovev1.ListReplicasRequest) iter.Seq2[*datamovev1.Replica, error] {
	return pages(ctx, c.ListReplicas, req, (*datamovev1.ListReplicasResponse).GetReplicas)
}

// Leases iterates over leases, as Tasks does over tasks.
func (c *Client) Leases(ctx context.Context, req *datamovev1.ListLeasesRequest) iter.Seq2[*datamovev1.Lease, error] {
	return pages(ctx, c.ListLeases, req, (*datamovev1.ListLeasesResponse).GetLeases)
}

// Pins iterates over pins, as Tasks does over tasks.
func (c *Client) Pins(ctx context.Context, req *datamovev1.ListPinsRequest) iter.Seq2[*datamovev1.PinInfo, error] {
	return pages(ctx, c.ListPins, req, (*datamovev1.ListPinsResponse).GetPins)
}

// Bursts iterates over bursts, as Tasks does over tasks.
func (c *Client) Bursts(ctx context.Context, req *datamovev1.ListBurstsRequest) iter.Seq2[*datamovev1.Burst, error] {
	return pages(ctx, c.ListBursts, req, (*datamovev1.ListBurstsResponse).GetBursts)
}

// Agents iterates over agents, as Tasks does over tasks.
func (c *Client) Agents(ctx context.Context, req *datamovev1.ListAgentsRequest) iter.Seq2[*datamovev1.Agent, error] {
	return pages(ctx, c.ListAgents, req, (*datamovev1.ListAgentsResponse).GetAgents)
}

// pages asks for one page after the other, starting where req says. When half of a page is
// dealt with, the next one is on its way: a caller that prints a long list does not wait for each.
func pages[Q listing, P page, T any](ctx context.Context, call func(context.Context, Q, ...grpc.CallOption) (P, error), req Q, items func(P) []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var under sync.WaitGroup
		defer under.Wait()
		defer cancel()
		m := req.ProtoReflect().New() // also of nil
		proto.Merge(m.Interface(), req)
		req := m.Interface().(Q)
		ask := func() func() (P, error) {
			var answer P
			var err error
			asked := proto.CloneOf(req)
			answered := make(chan struct{})
			under.Go(func() {
				defer close(answered)
				answer, err = call(ctx, asked)
			})
			return func() (P, error) { <-answered; return answer, err }
		}
		for next := ask(); next != nil; {
			answer, err := next()
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			next = nil
			token := answer.GetNextPageToken()
			again := token != "" && token == req.GetPageToken()
			m.Set(m.Descriptor().Fields().ByName("page_token"), protoreflect.ValueOfString(token))
			all := items(answer)
			for i, item := range all {
				if i == len(all)/2 && token != "" && !again {
					next = ask()
				}
				if !yield(item, nil) {
					return
				}
			}
			switch {
			case again:
				var none T
				yield(none, errors.New("list: the service gives the same page again and again"))
				return
			case next == nil && token != "": // the page was empty
				next = ask()
			}
		}
	}
}
