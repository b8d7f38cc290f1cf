package browser

import "testing"

// hurry lets timers of a page run out sooner: its rounds, and when it tries again. What time of day it is stays.
const hurry = `{
	const faster = 8
	const [timeout, interval, clock] = [setTimeout, setInterval, performance.now.bind(performance)]
	window.setTimeout = (f, ms, ...rest) => timeout(f, ms / faster, ...rest)
	window.setInterval = (f, ms, ...rest) => interval(f, ms / faster, ...rest)
	performance.now = () => clock() * faster
}`

// TestViews: what the views show is what the API tells.
func TestViews(t *testing.T) {
	t.Parallel()
	inTurn(t, newWindow(t), shared{"task", testTask}, shared{"agent dies", testAgentDies}, shared{"overview", testOverview}, shared{"sums", testSums}, shared{"report", testReport}, shared{"viewer", testViewer},
		shared{"tonight", testTonight}, shared{"list", testList}, shared{"keys", testKeys}, shared{"clock", testClock}, shared{"chart", testChart}, shared{"deeds", testDeeds})
}

// TestRounds: what no stream tells of is asked for in rounds.
func TestRounds(t *testing.T) {
	t.Parallel()
	w := newWindow(t)
	w.before(hurry)
	inTurn(t, w, shared{"usage", testUsage}, shared{"ended", testEnded}, shared{"many run", testManyRun}, shared{"full", testFull})
}

// TestRefused: what the service does not tell is said in its place, and what it tells later is found.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWindow(t)
	w.before(hurry)
	inTurn(t, w, shared{"denied", testDenied}, shared{"no task", testNoTask}, shared{"late", testLate}, shared{"away", testAway})
}
