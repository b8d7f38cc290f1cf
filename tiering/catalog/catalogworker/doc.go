// Package catalogworker is the worker's side of the catalog: a tier is walked, and the walk sent to the coordinator ([Scan]); what changes
// in a tier is told while it changes ([Follow]).
//
// A walk waits for its turn now and then, so that tasks of users go before it. Nothing is kept here: where the connection
// breaks, a walk or a feed begins anew, and what the catalog has already costs it little. Which feed a backend has is not
// decided here ([Feeds]); what the walk becomes is of tiering/catalog/catalogserver. TestScan and TestFollow show how
// often it begins anew; scripts of test/script/service (catalog.txt, follow.txt) show both at work.
package catalogworker
