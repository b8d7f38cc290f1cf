package browser

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/mover"
	life "datamove.dev/mover/task"
	"datamove.dev/mover/units"
	"datamove.dev/test/must"
)

// TestModules: what the page counts and prints with is what the program counts and prints with. It is asked for function by function, in one page.
func TestModules(t *testing.T) {
	t.Parallel()
	w := newHouse(t, newService()).look("/", 1280, 800)
	for _, row := range []shared{{"units", testUnits}, {"durations", testDurations}, {"words", testWords}, {"deeds", testDeedsByState}, {"store", testStore}, {"history", testHistory}} {
		w.during(t, row)
	}
}

// row is a call of a function of the page, and what Go prints for the same.
type row struct {
	Call string `json:"call"`
	Arg  any    `json:"arg"`
	Want string `json:"want"`
}

// differs calls the functions of a module, and returns what came out otherwise.
func differs(t *testing.T, w *window, module string, rows []row) []string {
	t.Helper()
	table := must.Get(json.Marshal(rows))(t)
	return eval[[]string](w, `import(new URL(%q, document.querySelector('script').src)).then((m) => %s
		.map(({call, arg, want}) => [call, arg, m[call](arg), want]).filter(([, , got, want]) => got !== want)
		.map(([call, arg, got, want]) => call + '(' + JSON.stringify(arg) + ') is ' + got + ', want ' + want))`, module, table)
}

// someNumbers are numbers of every size, with those around which rounding changes.
func someNumbers(random *rand.Rand) (all []int64) {
	for unit := int64(1); unit > 0 && unit <= 1<<60; unit <<= 10 {
		for _, times := range []float64{1, 1.005, 1.125, 1.5, 9.994, 9.995, 9.996, 10.25, 10.75, 99.94, 99.95, 99.96, 100.5, 101.5, 999.4, 999.5, 999.6, 1023, 1023.9} {
			if n := float64(unit) * times; n < math.MaxInt64 {
				all = append(all, int64(n)-1, int64(n), int64(n)+1)
			}
		}
	}
	for range 2000 {
		n := random.Int64() >> random.IntN(63)
		all = append(all, n, -n, n&^(1<<random.IntN(60)-1))
	}
	return append(all, math.MaxInt64, math.MinInt64, math.MinInt64+1)
}

// testUnits: the page prints numbers as the command line does.
func testUnits(t *testing.T, w *window) {
	random := rand.New(rand.NewPCG(1, 2))
	var rows []row
	add := func(call string, arg any, want string) { rows = append(rows, row{call, arg, want}) }
	for _, n := range someNumbers(random) {
		add("bytes", strconv.FormatInt(n, 10), units.Bytes(n))
		add("count", strconv.FormatInt(n, 10), units.Count(n))
	}
	for _, x := range []float64{0, 0.4, 0.99999, -1, 1023.9, 1024, 1152 << 10, 536870912.5, 1e18, 1e19, math.MaxFloat64} {
		add("perSecond", x, units.PerSecond(x))
	}
	for range 1000 {
		x := math.Exp(random.Float64() * 45)
		add("perSecond", x, units.PerSecond(x))
	}
	durations := []time.Duration{0, 1, 4999999, 5 * time.Millisecond, 125 * time.Millisecond, 9994999999, 9995 * time.Millisecond, 59949 * time.Millisecond, 59950 * time.Millisecond,
		59*time.Second + 999*time.Millisecond, 90500 * time.Millisecond, time.Hour - 501*time.Millisecond, time.Hour - 500*time.Millisecond, 24*time.Hour - 31*time.Second, 24*time.Hour - 30*time.Second, 76*time.Hour + 30*time.Minute}
	for range 1000 {
		durations = append(durations, time.Duration(math.Exp(random.Float64()*36)))
	}
	for _, d := range durations {
		add("duration", d, units.Duration(d))
		add("duration", -d, units.Duration(-d))
		add("clock", d, units.Clock(d))
	}
	for _, bad := range differs(t, w, "units.js", rows) {
		t.Error(bad)
	}
	for _, n := range []int64{0, 1, 2, 1200} {
		if got, want := eval[string](w, `import(new URL('units.js', document.querySelector('script').src)).then((m) => m.plural('%d', 'file', 'files'))`, n), units.Plural(n, "file", "files"); got != want {
			t.Errorf("plural(%d) is %s, want %s", n, got, want)
		}
	}
}

// testDurations: the page reads durations as protobuf writes them.
func testDurations(t *testing.T, w *window) {
	for _, d := range []time.Duration{0, 1, -1, 1500 * time.Millisecond, -1500 * time.Millisecond, 3 * time.Microsecond, 76 * time.Hour} {
		text := must.Get(protojson.Marshal(durationpb.New(d)))(t)
		if got := eval[int64](w, `import(new URL('units.js', document.querySelector('script').src)).then((m) => m.nanoseconds(%s))`, text); got != int64(d) {
			t.Errorf("%s is %d, want %d", text, got, d)
		}
	}
}

// hostileNames are what names of files can be.
var hostileNames = []string{
	"", "plain", "with space", "umlaut ä", "日本語.txt", "emoji 🙂", "quote\"", `back\slash`, "new\nline", "\x00", "\x1b[31mred", "\x7f", "bell\a", "tab\t", "\v\f\b\r",
	"\xff\xfe", "half \xe2\x82", "overlong \xc0\xaf", "surrogate \xed\xa0\x80", "beyond \xf4\x90\x80\x80", "cut \xf0\x9f\x99", "good then bad 🙂\xf0",
	"rtl \u202egnp.exe", "isolate \u2066x\u2069", "mark \u200f", "zero\u200bwidth", "bom \ufeff", "nbsp\u00a0", "line\u2028", "replacement \ufffd", "astral \U000e0041", "private \ue000",
	"<img src=x onerror=alert(1)>", "</td><script>alert(1)</script>", "a&amp;b", "javascript:alert(1)", "${alert(1)}", "עברית", "مرحبا", "e\u0301", strings.Repeat("long/", 800),
}

// testWords: the page prints names as the command line does.
func testWords(t *testing.T, w *window) {
	random := rand.New(rand.NewPCG(3, 4))
	names := hostileNames
	for range 2000 {
		name := make([]byte, random.IntN(12))
		for i := range name {
			name[i] = byte(random.IntN(256))
		}
		names = append(names, string(name))
	}
	var rows []row
	for _, name := range names {
		rows = append(rows, row{"name", base64.StdEncoding.EncodeToString([]byte(name)), mover.Printable(name)})
		if text := strings.ToValidUTF8(name, "?"); text == name {
			rows = append(rows, row{"word", name, mover.Printable(name)})
		}
	}
	for _, bad := range differs(t, w, "text.js", rows) {
		t.Error(bad)
	}
}

// testDeedsByState: the page offers what the life of a task allows.
func testDeedsByState(t *testing.T, w *window) {
	for deed, to := range map[string]string{"pause": "paused", "resume": "queued", "cancel": "cancelled"} {
		for _, from := range states {
			want := false
			for _, s := range states {
				want = want || life.Word(s) == to && life.May(from, s) && (deed != "resume" || from == paused)
			}
			got := eval[bool](w, `import(new URL('task.js', document.querySelector('script').src)).then((m) => m.may.%s({state: %q, phase: ''}))`, deed, life.Word(from))
			if got != want {
				t.Errorf("%s of a task that is %s: %v, want %v", deed, life.Word(from), got, want)
			}
		}
	}
}

// testStore: rows are in order whatever order messages come in, the newest of each
// task counts, and there are never more than can be kept.
func testStore(t *testing.T, w *window) {
	wrong := eval[[]string](w, `import(new URL('store.js', document.querySelector('script').src)).then(({Store, choose, most}) => {
		let seed = 7
		const random = (n) => (seed = seed * 48271 %% 2147483647) %% n
		const wrong = []
		const id = (n) => String(n).padStart(20, '0')
		const store = new Store()
		const some = new Store()
		some.put({id: '1', state: 'TASK_STATE_FAILED'}, {id: '2', state: 'TASK_STATE_DONE'}, {id: '3', state: 'TASK_STATE_FAILED', error: 'no route to host'})
		for (const [text, want] of [['fail', '3 1'], ['route host', '3'], ['done', '2'], ['nothing', '']]) {
			const got = choose(some.order, {text}).map((t) => t.id).join(' ')
			if (got !== want) wrong.push('a search for ' + text + ' finds ' + got)
		}
		const model = new Map()
		for (let i = 0; i < 3000; i++) {
			const n = random(500)
			if (random(9) === 0) { store.drop(id(n)); model.delete(n) }
			else {
				const revision = random(40)
				store.put({id: id(n), revision: String(revision), phase: 'p' + revision})
				if (!(model.get(n) > revision)) model.set(n, revision)
			}
			if (random(4) === 0) continue // several changes at once
			const got = store.order.map((t) => t.id + t.phase).join()
			const want = [...model].sort(([a], [b]) => b - a).map(([n, r]) => id(n) + 'p' + r).join()
			if (got !== want || store.byID.size !== model.size) wrong.push('step ' + i)
		}
		for (let n = 0; n < most + 5000; n += 5000) {
			store.put(...Array.from({length: 5000}, (_, i) => ({id: id(1000 + n + i)})))
			if (store.order.length > most || store.byID.size !== store.order.length) wrong.push(store.order.length + ' rows')
		}
		if (store.order[0].id !== id(1000 + most + 4999)) wrong.push('the newest is ' + store.order[0].id)
		return wrong
	})`)
	for _, bad := range wrong {
		t.Error(bad)
	}
}

// testHistory: the last samples are kept, a close one replaces the last, and a gap stays.
func testHistory(t *testing.T, w *window) {
	got := eval[string](w, `import(new URL('history.js', document.querySelector('script').src)).then(({History, Histories}) => {
		const h = new History()
		for (const [time, value] of [[1000, 1], [1100, 2], [1800, 3], [2500, 4], [2600, 5], [2600, 6], [2500, 7], [4000, NaN], [4100, 8]]) h.add(time, value)
		const short = h.since(0).join(' ') + ' | ' + h.since(2600).join(' ')
		for (let i = 0; i < 5000; i++) h.add(10_000 + i * 1000, i)
		const long = h.since(0)
		const all = new Histories(3)
		for (const key of ['a', 'b', 'c', 'a', 'd']) all.of(key).add(1, 1)
		return [short, long.length, long[0], long.at(-1), ['a', 'd', 'b'].map((key) => all.of(key).since(0).length)].join('; ')
	})`)
	if want := "1000,1 1800,3 2600,5 4000,NaN 4100,8 | 2600,5 4000,NaN 4100,8; 400; 4610000,4600; 5009000,4999; 1,1,0"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}
