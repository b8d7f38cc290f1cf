package gpfs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// maxPages is how many pages one list may have. The GUI gives up to 1,000 entries on each.
const maxPages = 1000

// list asks for a list, page after page, and gives each entry to take. Where the next page
// is, the GUI says with an address that often names itself as localhost: only the position
// in it (lastId) is used, so that it can not lead elsewhere.
func (c *Client) list(ctx context.Context, name string, filter string, take func(object), path ...string) error {
	q := call{method: http.MethodGet, path: path, query: url.Values{"fields": {":all:"}}}
	if filter != "" {
		q.query.Set("filter", filter)
	}
	last := ""
	for range maxPages {
		o, err := c.do(ctx, q)
		if err != nil {
			return err
		}
		for _, entry := range o.objects(name) {
			take(entry)
		}
		next := position(o)
		if err := c.done(q, o); err != nil {
			return err
		}
		switch next {
		case "":
			return nil
		case last:
			return c.failed(q, 0, "", fmt.Errorf("%w: its next page is the same one again", ErrReply))
		}
		q.query.Set("lastId", next)
		last = next
	}
	return c.failed(q, 0, "", fmt.Errorf("%w: it has more than %d pages", ErrReply, maxPages))
}

// position is the lastId of the next page, "" on the last one.
func position(o object) string {
	if !o.has("paging") {
		return ""
	}
	paging := o.object("paging")
	if !paging.has("next") {
		return ""
	}
	next, err := url.Parse(paging.text("next"))
	if err != nil || next.Query().Get("lastId") == "" {
		paging.fail("next", "has no lastId")
		return ""
	}
	return next.Query().Get("lastId")
}
