package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// dashboard is what we look at of a Grafana dashboard.
type dashboard struct {
	file          string
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
}

type variable struct {
	Name, Type, Definition string
	Datasource             source
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct {
		Expr, RefID string
		Datasource  source
	}
	Panels []json.RawMessage
}

type source struct{ Type, UID string }

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "dashboards", "*.json"))
	if err != nil || len(files) != 4 {
		t.Fatal("dashboards:", files, err)
	}
	var all []dashboard
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		d := dashboard{file: filepath.Base(file)}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, d)
	}
	return all
}

// variables are replaced by what a person chooses first, and by what Grafana makes of a
// scrape interval.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$class", ".*", "$tier", ".*", "$instance", ".*")

// exprs are the expressions of all panels, and what variables are filled from.
func (d *dashboard) exprs() []string {
	var all []string
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all = append(all, variables.Replace(q.Expr))
		}
	}
	return all
}

func TestDashboardsUseWhatIsThere(t *testing.T) {
	k := learn(scraped(t))
	for _, d := range dashboards(t) {
		for _, expr := range d.exprs() {
			for _, wrong := range k.check(expr) {
				t.Errorf("%s: %s\n%s", d.file, wrong, expr)
			}
			if strings.Contains(expr, "$") {
				t.Errorf("%s: a variable that is not there: %s", d.file, expr)
			}
		}
		for _, v := range d.Templating.List {
			query, ok := strings.CutPrefix(v.Definition, "label_values(")
			if !ok && v.Type == "query" {
				t.Errorf("%s: $%s is filled by %s", d.file, v.Name, v.Definition)
			}
			metric, label, _ := strings.Cut(strings.TrimSuffix(query, ")"), ", ")
			if ok && len(k.check("sum by ("+label+") ("+metric+")")) > 0 {
				t.Errorf("%s: $%s: %v", d.file, v.Name, v.Definition)
			}
		}
	}
}

// Grafana itself has these panels; others are plugins.
var panels = []string{"row", "stat", "timeseries", "table", "bargauge", "heatmap"}

func TestDashboardsCanBeImported(t *testing.T) {
	uids := words{}
	for _, d := range dashboards(t) {
		if d.UID == "" || uids[d.UID] || d.Title == "" || d.SchemaVersion < 36 {
			t.Errorf("%s: uid %q, title %q, schema %d", d.file, d.UID, d.Title, d.SchemaVersion)
		}
		uids[d.UID] = true
		if len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" || d.Templating.List[0].Name != "datasource" {
			t.Errorf("%s does not ask for a data source", d.file)
		}
		for _, v := range d.Templating.List[1:] {
			chosen(t, d.file, v.Name, v.Datasource)
		}
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || !slices.Contains(panels, p.Type) {
				t.Errorf("%s: panel %d %q of type %s", d.file, p.ID, p.Title, p.Type)
			}
			ids[p.ID] = true
			d.panel(t, p)
		}
		d.overlaps(t)
	}
}

// panel looks at a panel by itself.
func (d *dashboard) panel(t *testing.T, p panel) {
	if p.Type == "row" {
		return
	}
	if p.Description == "" || len(p.Targets) == 0 {
		t.Errorf("%s: %s shows nothing, or does not say what", d.file, p.Title)
	}
	chosen(t, d.file, p.Title, p.Datasource)
	refs := words{}
	for _, q := range p.Targets {
		chosen(t, d.file, p.Title, q.Datasource)
		if q.RefID == "" || refs[q.RefID] {
			t.Errorf("%s: %s has %s twice", d.file, p.Title, q.RefID)
		}
		refs[q.RefID] = true
	}
}

// chosen wants the data source that the person chose.
func chosen(t *testing.T, file, what string, s source) {
	t.Helper()
	if s != (source{"prometheus", "${datasource}"}) {
		t.Errorf("%s: %s asks %v", file, what, s)
	}
}

// overlaps finds panels that lie on each other, or beyond the edge.
func (d *dashboard) overlaps(t *testing.T) {
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%s: %s is at %+v", d.file, p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s: %s lies on %s", d.file, p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
