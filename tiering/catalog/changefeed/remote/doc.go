// Package remote keeps a catalog fresh of a tree that is on another host: there a feed hears of changes, and here they are taken.
//
// [Tell] is over there: it runs a feed, tells what it hears, and answers what it is asked about the tree. [Hear] is here: what is returned is a changefeed.Feed and a catalog.Source of
// that tree, for a changefeed.Follower. A batch is answered when it is in the catalog; until then no other is told. What the marks of a feed are is asked for.
//
// What comes is trusted in nothing but that it is so over there. The code that looks at names checks them, sizes are bounded, and what answers no question
// ends the conversation. Each side has one goroutine that receives, and sends under a lock; both end with the stream. TestModel has a catalog follow a tree over it.
package remote
